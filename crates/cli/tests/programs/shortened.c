/* A mapping with a hole is made shorter where it is, and other memory is wanted after that; one is not moved. */
#include "pages.h"

#define LEN (4 * MIB)
#define OTHER (40 * MIB)

int main(void) {
    char *other = map(OTHER);
    fill(other, OTHER, 2);
    char *p = map(LEN), *to = map(LEN), *q = map(LEN);
    fill(q, LEN, 3);
    /* The last, so that what goes of it is there. */
    fill(p, LEN, 1);
    must(munmap(p + MIB, MIB) == 0 && munmap(q + MIB, MIB) == 0);
    must(mremap(p, LEN, LEN / 2, MREMAP_MAYMOVE) == p);
    must(mremap(q, LEN, LEN + MIB, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED && errno == EFAULT);
    for (int i = 4; i < 6; i++) {
        fill(other, OTHER, i);
        check(other, OTHER, i, "other");
    }
    check(p, MIB, 1, "shortened");
    check(q, MIB, 3, "not moved");
    puts("right");
    return 0;
}

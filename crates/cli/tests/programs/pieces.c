/* One mapping that is several for the kernel is moved, and cold. */
#include "pages.h"

int main(void) {
    size_t len = 6 * MIB;
    char *p = mmap(0, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fill(p, len, 1);
    /* Advice that the kernel keeps for a part of it. */
    if (madvise(p + len / 3, len / 3, MADV_DONTFORK))
        return 1;
    char *other = mmap(0, 40 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fill(other, 40 * MIB, 2);
    char *q = mremap(p, len, len + MIB, MREMAP_MAYMOVE);
    if (q == MAP_FAILED) {
        printf("mremap: %s\n", strerror(errno));
        return 2;
    }
    check(q, len, 1, "moved");
    fill(q + len, MIB, 3);
    fill(other, 40 * MIB, 4);
    check(q, len, 1, "moved and cold");
    check(q + len, MIB, 3, "grown");
    char *r = mremap(q, len + MIB, len / 2, MREMAP_MAYMOVE);
    check(r, len / 2, 1, "shrunk");

    /* What the kernel refuses leaves all as it is. */
    char *u = map(len), *v = map(2 * len);
    fill(u, len, 7);
    fill(v, len, 8);
    must(madvise(u + len / 3, len / 3, MADV_DONTFORK) == 0);
    int keep = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
    must(mremap(u, len, len / 2, keep, v) == MAP_FAILED && errno == EINVAL);
    must(mremap(u, len, 2 * len, keep, v) == MAP_FAILED && errno == EINVAL);
    must(mremap(u, len, len, MREMAP_FIXED, v) == MAP_FAILED && errno == EINVAL);
    check(u, len, 7, "not moved");
    check(v, len, 8, "not covered");
    munmap(v, 2 * len);
    munmap(u, len);

    /* The same, and the mapping that is moved from stays, empty. */
    char *a = map(len), *b = map(len);
    fill(a, len, 5);
    must(madvise(a + len / 3, len / 3, MADV_DONTFORK) == 0);
    fill(other, 40 * MIB, 6);
    must(mremap(a, len, len, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, b) == b);
    check_zeros(a, len, "what was moved from");
    check(b, len, 5, "moved, and its mapping is there");

    /* To a place of the kernel's choice. */
    must(madvise(b + len / 3, len / 3, MADV_DONTFORK) == 0);
    char *c = mremap(b, len, len, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    must(c != MAP_FAILED);
    check_zeros(b, len, "what was moved from");
    check(c, len, 5, "moved to a free place, and its mapping is there");

    /* It grows where it is, if there is room. */
    char *d = map(len + MIB);
    must(munmap(d + len, MIB) == 0);
    fill(d, len, 9);
    must(madvise(d + len / 3, len / 3, MADV_DONTFORK) == 0);
    must(mremap(d, len, len + MIB, 0) == d);
    fill(d + len, MIB, 10);
    fill(other, 40 * MIB, 6);
    check(d, len, 9, "not moved");
    check(d + len, MIB, 10, "grown in its place");
    char *end = map(3 * MIB);
    must(madvise(end + MIB, MIB, MADV_DONTFORK) == 0);
    must(mremap(end, 2 * MIB, 3 * MIB, 0) == MAP_FAILED && errno == ENOMEM);
    puts("moved");
    return 0;
}

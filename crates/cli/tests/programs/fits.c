/* Uses little memory at a time, and maps much more than it uses: reserves memory of which it opens a part, and maps, writes and unmaps
 * again and again. Prints "right". */
#include "pages.h"
#include <unistd.h>

#define RESERVED (512 * MIB)
#define OPENED (16 * MIB)
#define PASSING (12 * MIB)
#define ROUNDS 60

int main(void) {
    char *reserved = mmap(NULL, RESERVED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    must(reserved != MAP_FAILED && mprotect(reserved + MIB, OPENED, PROT_READ | PROT_WRITE) == 0);
    fill(reserved + MIB, OPENED, 1);
    for (int round = 0; round < ROUNDS; round++) {
        char *passing = map(PASSING);
        fill(passing, PASSING, 2 + round);
        check(passing, PASSING, 2 + round, "passing");
        must(munmap(passing, PASSING) == 0);
    }
    check(reserved + MIB, OPENED, 1, "opened");
    puts("right");
    return 0;
}

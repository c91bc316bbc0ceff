/* mlockall of a small program: little is there, and little becomes resident. locks_all MIB current|future|both:
   MIB may be locked at most. */
#include "pages.h"
#include <sys/resource.h>

static long resident_kib(void) {
    char line[256];
    long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, f))
        sscanf(line, "VmRSS: %ld", &kib);
    fclose(f);
    return kib;
}

int main(int argc, char **argv) {
    must(argc == 3);
    struct rlimit most;
    must(getrlimit(RLIMIT_MEMLOCK, &most) == 0);
    if (most.rlim_cur > strtoul(argv[1], NULL, 10) * MIB)
        most.rlim_cur = strtoul(argv[1], NULL, 10) * MIB;
    must(setrlimit(RLIMIT_MEMLOCK, &most) == 0);
    int is_future = strcmp(argv[2], "current"), is_current = strcmp(argv[2], "future");
    must(mlockall((is_future ? MCL_FUTURE : 0) | (is_current ? MCL_CURRENT : 0)) == 0);
    char *blocks[16];
    for (int i = 0; i < 16; i++) {
        blocks[i] = map(256 << 10);
        fill(blocks[i], 256 << 10, i);
    }
    for (int i = 0; i < 16; i++)
        check(blocks[i], 256 << 10, i, "a block");
    must(resident_kib() < 64 << 10);
    puts("right");
    return 0;
}

/* So many MiB, filled and checked. */
#include "pages.h"

int main(int argc, char **argv) {
    size_t len = (argc > 1 ? atoi(argv[1]) : 1) * MIB;
    char *p = map(len);
    fill(p, len, 1);
    check(p, len, 1, "memory");
    puts("right");
    return 0;
}

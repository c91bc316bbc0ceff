// Maps ten times the limit and has it populated at once, then writes and reads it.
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>

#define PAGES 61440L

int main(void) {
    char *at = mmap(0, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED)
        return 1;
    long bad = 0;
    for (long page = 0; page < PAGES; page++)
        *(long *)(at + page * 4096) = page;
    for (long page = 0; page < PAGES; page++)
        bad += *(long *)(at + page * 4096) != page;
    puts(bad ? "wrong" : "right");
    return 0;
}

/* Shared memory, which no pager manages: touches 24 MiB of it, and stands for two seconds. */
#include "pages.h"

int main(void) {
    void *p = mmap(0, 24 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(p != MAP_FAILED);
    fill(p, 24 * MIB, 1);
    sleep(2);
    check(p, 24 * MIB, 1, "shared");
    printf("right\n");
    return 0;
}

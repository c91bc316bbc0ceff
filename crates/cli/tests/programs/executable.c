/* Memory that may be executed, as some Lisps have for all that they hold, beside some that may not. */
#include "pages.h"

int main(void) {
    void *plain = mmap(0, 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fill(plain, 8 * MIB, 1);
    void *heap = mmap(0, 40 * MIB, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fill(heap, 40 * MIB, 2);
    sleep(1);
    check(plain, 8 * MIB, 1, "plain");
    check(heap, 40 * MIB, 2, "heap");
    printf("right\n");
    return 0;
}

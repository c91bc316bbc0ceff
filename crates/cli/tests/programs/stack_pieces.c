/* MAP_STACK memory that is unmapped in pieces and mapped again as anything else, and used as a heap. */
#include "pages.h"
#include <pthread.h>

#define STACK (64 * MIB)

static void *nothing(void *arg) { return arg; }

int main(void) {
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    must(stack != MAP_FAILED);
    stack[0] = 1;
    for (size_t at = 0; at < STACK; at += 4 * MIB)
        must(munmap(stack + at, 4 * MIB) == 0);
    char *heap = mmap(stack, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    must(heap == stack);
    fill(heap, STACK, 1);
    check(heap, STACK, 1, "where a stack was");
    for (int i = 0; i < 2000; i++) {
        pthread_t threads[5];
        for (int j = 0; j < 5; j++)
            must(pthread_create(&threads[j], NULL, nothing, NULL) == 0);
        for (int j = 0; j < 5; j++)
            must(pthread_join(threads[j], NULL) == 0);
    }
    check(heap, STACK, 1, "after ten thousand threads");
    puts("right");
    return 0;
}

/* MAP_STACK memory that is unmapped in pieces and mapped again as anything else, and used as a heap. */
#include "pages.h"
#include <pthread.h>
#include <sys/wait.h>

#define STACK (64 * MIB)

static void *nothing(void *arg) { return arg; }

/* Where a stack was before mremap moved it lies memory like any other, and where it came to lies a stack. */
static void move_a_stack(void) {
    char *hole = map(2 * STACK);
    char *stack = mmap(hole, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_FIXED, -1, 0);
    must(stack == hole);
    must(mremap(stack, STACK, STACK, MREMAP_MAYMOVE | MREMAP_FIXED, hole + STACK) == hole + STACK);
    char *heap = mmap(hole, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    must(heap == hole);
    fill(heap, STACK, 2);
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        check(heap, STACK, 2, "the child's, where a stack moved away");
        _exit(0);
    }
    int status;
    must(waitpid(child, &status, 0) == child);
    must(status == 0);
    check(heap, STACK, 2, "where a stack moved away");
    must(munmap(heap, 2 * STACK) == 0);

    /* Half of it was a stack, which the kernel sees no more. */
    char *old = map(2 * MIB), *other = map(2 * MIB);
    must(mmap(old, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_FIXED, -1, 0) == old);
    must(mremap(old, MIB, MIB, MREMAP_MAYMOVE | MREMAP_FIXED, other) == other);
    must(munmap(old + MIB, MIB) == 0);
    char *whole = mmap(old, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    must(whole == old);
    fill(whole, 2 * MIB, 3);
    usleep(50000);
    whole = mremap(whole, 2 * MIB, 3 * MIB, MREMAP_MAYMOVE);
    must(whole != MAP_FAILED);
    check(whole, 2 * MIB, 3, "one mapping");
}

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
    move_a_stack();
    puts("right");
    return 0;
}

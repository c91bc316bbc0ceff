/* Threads on stacks that the program has made itself, which are out as they wake and end: the kernel writes to the words
 * that libc keeps there. Prints what it finds; the same without uzswap. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 32, STACK = 256 << 10, FILLED = 40 << 20 };

static void *wait_for_it(void *number)
{
    usleep(800000 + 10000 * (long)number);
    return (void *)(2 * (long)number);
}

int main(void)
{
    pthread_t threads[THREADS];
    long sum = 0;
    for (long n = 0; n < THREADS; n++) {
        pthread_attr_t attributes;
        void *stack;
        pthread_attr_init(&attributes);
        if (posix_memalign(&stack, 4096, STACK))
            return 1;
        memset(stack, 1, STACK);
        pthread_attr_setstack(&attributes, stack, STACK);
        if (pthread_create(&threads[n], &attributes, wait_for_it, (void *)n))
            return 2;
    }
    for (int round = 0; round < 3; round++) {
        char *memory = malloc(FILLED);
        for (size_t i = 0; i < FILLED; i += 64)
            memory[i] = (char)(i / 64 * 7 + round);
        for (size_t i = 0; i < FILLED; i += 64)
            sum += memory[i] == (char)(i / 64 * 7 + round);
        free(memory);
    }
    for (int n = 0; n < THREADS; n++) {
        void *result;
        pthread_join(threads[n], &result);
        sum += (long)result;
    }
    printf("%ld\n", sum);
    return 0;
}

/* Hundreds of threads, which all touch what is out at a time, again and again, while some of it is unmapped. Prints what it
 * finds; the same without uzswap. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { THREADS = 300, OWN = 192 << 10, ROUNDS = 2 };

static pthread_barrier_t all;
static volatile int wrong;

static char *map(int seed)
{
    char *memory = mmap(NULL, OWN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, seed, OWN);
    return memory;
}

static void *live(void *number)
{
    int n = (int)(intptr_t)number;
    char *memory = map(n);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&all);
        for (int i = 0; i < OWN; i += 512)
            if (memory[i] != (char)(n + round))
                __sync_fetch_and_add(&wrong, 1);
        munmap(memory, OWN);
        memory = map(n + round + 1);
    }
    munmap(memory, OWN);
    return NULL;
}

int main(void)
{
    pthread_barrier_init(&all, NULL, THREADS);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 128 << 10);
    static pthread_t threads[THREADS];
    for (intptr_t n = 0; n < THREADS; n++)
        if (pthread_create(&threads[n], &attributes, live, (void *)n))
            return 2;
    for (int n = 0; n < THREADS; n++)
        pthread_join(threads[n], NULL);
    printf("%d wrong\n", wrong);
    return 0;
}

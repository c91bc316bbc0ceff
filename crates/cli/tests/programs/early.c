/* A library whose constructor makes a thread that has all signals blocked, as allocators and libraries of mathematics do;
 * without -DLIBRARY the program that loads it, and is out of memory while that thread sleeps. The same without uzswap. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef LIBRARY
static pthread_t thread;
static volatile int rounds, is_over;

static void *wake_often(void *memory)
{
    volatile char room[16384];
    while (!is_over) {
        room[0] = room[sizeof room - 1] = 1;
        for (size_t i = 0; i < 1 << 20; i += 4096)
            ((char *)memory)[i]++;
        usleep(200000);
        rounds++;
    }
    return NULL;
}

__attribute__((constructor)) static void begin(void)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_create(&thread, NULL, wake_often, malloc(1 << 20));
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    usleep(20000);
}

int end_early(void)
{
    is_over = 1;
    pthread_join(thread, NULL);
    return rounds > 1;
}
#else
int end_early(void);

int main(void)
{
    size_t size = 48 << 20;
    long wrong = 0;
    for (int round = 0; round < 3; round++) {
        char *memory = malloc(size);
        for (size_t i = 0; i < size; i += 64)
            memory[i] = (char)(i / 64 * 7 + round);
        usleep(300000);
        for (size_t i = 0; i < size; i += 64)
            wrong += memory[i] != (char)(i / 64 * 7 + round);
        free(memory);
    }
    printf("%ld %d\n", wrong, end_early());
    return 0;
}
#endif

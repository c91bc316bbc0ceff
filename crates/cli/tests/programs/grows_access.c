/* Threads reserve memory that may not be accessed, and have it in steps, as arenas of malloc and heaps of V8 do, while
 * what they had before goes out. Says what is not as it was written. The same without uzswap. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>

enum { THREADS = 6, KEPT = 6, ROUNDS = 60, LENGTH = 2 << 20, STEP = 64 << 10, PAGE = 4096 };

static long word_of(long thread, int round, size_t at)
{
    return thread * 1000003 + round * 7919L + (long)at * 31 + 1;
}

static void *work(void *number)
{
    long thread = (long)number, wrong = 0, *kept[KEPT] = {0};
    for (int round = 0; round < ROUNDS + KEPT; round++) {
        long **mine = &kept[round % KEPT];
        if (*mine) {
            for (size_t at = 0; at < LENGTH / sizeof(long); at += PAGE / sizeof(long))
                wrong += (*mine)[at] != word_of(thread, round - KEPT, at);
            munmap(*mine, LENGTH);
            *mine = NULL;
        }
        if (round >= ROUNDS)
            continue;
        *mine = mmap(NULL, LENGTH, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (*mine == MAP_FAILED)
            return (void *)-1L;
        for (size_t step = 0; step < LENGTH; step += STEP) {
            if (mprotect((char *)*mine + step, STEP, PROT_READ | PROT_WRITE))
                return (void *)-2L;
            for (size_t at = step / sizeof(long); at < (step + STEP) / sizeof(long); at += PAGE / sizeof(long))
                (*mine)[at] = word_of(thread, round, at);
        }
    }
    return (void *)wrong;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (long thread = 0; thread < THREADS; thread++)
        pthread_create(&threads[thread], NULL, work, (void *)thread);
    for (int thread = 0; thread < THREADS; thread++) {
        void *wrong;
        pthread_join(threads[thread], &wrong);
        printf("%d: %ld\n", thread, (long)wrong);
    }
    return 0;
}

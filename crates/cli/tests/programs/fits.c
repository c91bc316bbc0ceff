/* Uses little memory at a time, and maps much more than it uses: reserves memory of which it opens a part, and maps, writes and unmaps
 * again and again, beside threads that use little of their stacks. Prints "right". */
#include "pages.h"
#include <pthread.h>
#include <unistd.h>

#define RESERVED (512 * MIB)
#define OPENED (16 * MIB)
#define PASSING (12 * MIB)
#define ROUNDS 60
#define THREADS 24

static pthread_barrier_t over;

static void *wait_for_all(void *nothing) {
    pthread_barrier_wait(&over);
    return nothing;
}

int main(void) {
    char *reserved = mmap(NULL, RESERVED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    must(reserved != MAP_FAILED && mprotect(reserved + MIB, OPENED, PROT_READ | PROT_WRITE) == 0);
    fill(reserved + MIB, OPENED, 1);
    pthread_t threads[THREADS];
    must(pthread_barrier_init(&over, NULL, THREADS + 1) == 0);
    for (int i = 0; i < THREADS; i++)
        must(pthread_create(&threads[i], NULL, wait_for_all, NULL) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        char *passing = map(PASSING);
        fill(passing, PASSING, 2 + round);
        check(passing, PASSING, 2 + round, "passing");
        must(munmap(passing, PASSING) == 0);
    }
    pthread_barrier_wait(&over);
    for (int i = 0; i < THREADS; i++)
        must(pthread_join(threads[i], NULL) == 0);
    check(reserved + MIB, OPENED, 1, "opened");
    puts("right");
    return 0;
}

/* Mutexes that inherit priority, in memory that goes cold: inherits plain|robust|late SECONDS. Threads wait for each other at them, and
 * the kernel, which writes to them, does not wait for a page. glibc ends the program if a futex call fails. late: the call comes that much
 * later than the look at the mutex in front of it. */
#include "pages.h"
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

#define HOME (8 * MIB)
#define OTHER (40 * MIB)
#define MUTEXES 64
#define THREADS 8

static char *home, *other;
static atomic_int may_end;
static long guarded[MUTEXES];
static int is_robust;

static pthread_mutex_t *mutex(long i) {
    return (pthread_mutex_t *)(home + HOME / MUTEXES * i + (i % 7 == 6 ? PAGE - 8 * (1 + i % 4) : i % 97 * 40));
}

static long lock(long i) {
    int result = pthread_mutex_lock(mutex(i));
    if (result == EOWNERDEAD)
        must(pthread_mutex_consistent(mutex(i)) == 0);
    else
        must(result == 0);
    return ++guarded[i];
}

static void *work(void *seed) {
    unsigned long x = (unsigned long)seed * 0x9e3779b97f4a7c15ul;
    long count = 0;
    while (!may_end) {
        x ^= x >> 29, x *= 0xbf58476d1ce4e5b9ul, x ^= x >> 32;
        lock(x % MUTEXES);
        count++;
        if (x >> 40 & 1)
            usleep(x >> 50 & 511);
        if (is_robust && (x >> 41 & 63) == 0)
            break;
        must(pthread_mutex_unlock(mutex(x % MUTEXES)) == 0);
    }
    return (void *)count;
}

static void *sweeper(void *unused) {
    (void)unused;
    for (int i = 0; !may_end; i++)
        for (size_t at = 0; at < OTHER; at += PAGE)
            *(volatile char *)(other + at + i % PAGE) += 1;
    return NULL;
}

/* As glibc waits for a mutex that another thread has. */
static void *late(void *seconds) {
    long failed = 0;
    for (long i = 0; i < MUTEXES; i++)
        must(*(_Atomic unsigned *)mutex(i) != 0);
    sleep((long)seconds);
    for (long i = 0; i < MUTEXES; i++) {
        failed += syscall(SYS_futex, mutex(i), FUTEX_LOCK_PI | FUTEX_PRIVATE_FLAG, 0, NULL) != 0;
        failed += syscall(SYS_futex, mutex(i), FUTEX_UNLOCK_PI | FUTEX_PRIVATE_FLAG) != 0;
    }
    return (void *)failed;
}

static int wait_late(long seconds) {
    pthread_t thread;
    void *failed;
    for (long i = 0; i < MUTEXES; i++)
        lock(i);
    must(pthread_create(&thread, NULL, late, (void *)seconds) == 0);
    sleep(2 * seconds);
    for (long i = 0; i < MUTEXES; i++)
        must(pthread_mutex_unlock(mutex(i)) == 0);
    must(pthread_join(thread, &failed) == 0);
    printf("%ld calls fail\n", (long)failed);
    return failed != 0;
}

int main(int argc, char **argv) {
    must(argc == 3);
    is_robust = strcmp(argv[1], "robust") == 0;
    home = map(HOME);
    other = map(OTHER);
    fill(other, OTHER, 2);
    fill(home, HOME, 1);
    for (long i = 0; i < MUTEXES; i++) {
        pthread_mutexattr_t attr;
        must(pthread_mutexattr_init(&attr) == 0);
        must(pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT) == 0);
        if (is_robust)
            must(pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST) == 0);
        must(pthread_mutex_init(mutex(i), &attr) == 0);
        must(pthread_mutexattr_destroy(&attr) == 0);
    }
    pthread_t threads[THREADS], sweeps;
    must(pthread_create(&sweeps, NULL, sweeper, NULL) == 0);
    if (strcmp(argv[1], "late") == 0)
        return wait_late(atol(argv[2]));
    unsigned long seed = 1;
    long locked = 0, sum = 0;
    for (long i = 0; i < THREADS; i++)
        must(pthread_create(&threads[i], NULL, work, (void *)seed++) == 0);
    for (time_t end = time(NULL) + atol(argv[2]); time(NULL) < end;)
        for (long i = 0; i < THREADS; i++) {
            void *count;
            if (pthread_tryjoin_np(threads[i], &count) == 0) {
                locked += (long)count;
                must(pthread_create(&threads[i], NULL, work, (void *)seed++) == 0);
            } else
                usleep(100);
        }
    may_end = 1;
    for (long i = 0; i < THREADS; i++) {
        void *count;
        must(pthread_join(threads[i], &count) == 0);
        locked += (long)count;
    }
    must(pthread_join(sweeps, NULL) == 0);
    for (long i = 0; i < MUTEXES; i++) {
        sum += guarded[i];
        lock(i);
    }
    fprintf(stderr, "locked %ld times\n", locked);
    printf(sum == locked ? "each was alone\n" : "two were in at once\n");
    return sum != locked;
}

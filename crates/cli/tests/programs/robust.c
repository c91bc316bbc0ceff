/* Robust mutexes in memory that goes cold: robust thread|process N: N of them have an owner that ends; robust many SECONDS: short-lived
 * threads, half of which keep what they have locked. Whoever locks such a mutex next must be told (EOWNERDEAD). */
#include "pages.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define HOME (40 * MIB)
#define OTHER (48 * MIB)
#define WAITERS 16
#define PATIENCE_S 40

static char *home, *other;
static long count;
static atomic_int holds, may_end;

/* Spread over the memory; each seventh lies on two pages. */
static pthread_mutex_t *mutex(long i) {
    size_t page = HOME / PAGE / count * i;
    return (pthread_mutex_t *)(home + page * PAGE + (i % 7 == 6 ? PAGE - 8 * (1 + i % 4) : i % 97 * 40));
}

static void init(int pshared) {
    for (long i = 0; i < count; i++) {
        pthread_mutexattr_t attr;
        must(pthread_mutexattr_init(&attr) == 0);
        must(pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST) == 0);
        must(pthread_mutexattr_setpshared(&attr, pshared && i % 2) == 0);
        must(pthread_mutexattr_setprotocol(&attr, pshared && i % 5 == 4 ? PTHREAD_PRIO_INHERIT : PTHREAD_PRIO_NONE) == 0);
        must(pthread_mutexattr_settype(&attr, i % 3) == 0);
        must(pthread_mutex_init(mutex(i), &attr) == 0);
        must(pthread_mutexattr_destroy(&attr) == 0);
    }
}

static int lock(pthread_mutex_t *m) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    int result = pthread_mutex_timedlock(m, &until);
    if (result == EOWNERDEAD)
        must(pthread_mutex_consistent(m) == 0);
    return result;
}

static void *owner(void *unused) {
    (void)unused;
    for (long i = 0; i < count; i++)
        must(pthread_mutex_lock(mutex(i)) == 0);
    holds = 1;
    while (!may_end)
        usleep(1000);
    return NULL;
}

/* What libc's mutexes have inside, for an owner that libc does not know. */
struct inside {
    _Atomic unsigned word;
    unsigned count;
    int owner;
    unsigned users;
    int kind;
    short spins, elision;
    void **prev, **next;
};

static int owner_process(void *unused) {
    (void)unused;
    static void *head[4];
    head[1] = &head[1];
    head[0] = &head[1];
    head[2] = (void *)-32l;
    syscall(SYS_set_robust_list, &head[1], 24);
    int id = syscall(SYS_gettid);
    for (long i = 0; i < count; i++) {
        struct inside *m = (struct inside *)mutex(i);
        void **first = head[1];
        m->word = id;
        m->count = 1;
        m->next = first;
        m->prev = &head[1];
        first[-1] = &m->next;
        head[1] = &m->next;
        m->owner = id;
        m->users = 1;
    }
    holds = 1;
    for (;;)
        usleep(1000);
    return 0;
}

static void *wait_for(void *m) {
    int result = lock(m);
    if (result == EOWNERDEAD)
        pthread_mutex_unlock(m);
    return (void *)(long)result;
}

static void sweep(int times) {
    for (int i = 0; i < times; i++)
        for (size_t at = 0; at < OTHER; at += PAGE)
            *(volatile char *)(other + at + i % PAGE) += 1;
}

static int one_owner(int is_process) {
    pthread_t thread, waiters[WAITERS];
    static char stack[64 << 10];
    int process = 0;
    init(!is_process);
    sweep(2);
    if (is_process) {
        process = clone(owner_process, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
        must(process > 0);
    } else
        must(pthread_create(&thread, NULL, owner, NULL) == 0);
    while (!holds)
        usleep(1000);
    long waiting = count < WAITERS ? count : WAITERS;
    for (long i = 0; i < waiting; i++)
        must(pthread_create(&waiters[i], NULL, wait_for, mutex(i)) == 0);
    sweep(2);
    if (is_process) {
        must(kill(process, SIGKILL) == 0 && waitpid(process, NULL, 0) == process);
    } else {
        may_end = 1;
        must(pthread_join(thread, NULL) == 0);
    }
    long told = 0;
    for (long i = 0; i < count; i++) {
        void *result;
        if (i < waiting)
            must(pthread_join(waiters[i], &result) == 0);
        else
            result = wait_for(mutex(i));
        told += (long)result == EOWNERDEAD;
        if ((long)result == ETIMEDOUT) {
            printf("mutex %ld of %ld: nobody is told\n", i, count);
            return 1;
        }
    }
    printf("%ld of %ld deaths are told\n", told, count);
    return told != count;
}

static atomic_long locked, left, died;

static void *short_life(void *seed) {
    unsigned long x = (unsigned long)seed * 0x9e3779b97f4a7c15ul;
    for (int i = 0; i < 4; i++) {
        x ^= x >> 29, x *= 0xbf58476d1ce4e5b9ul;
        pthread_mutex_t *m = mutex((x >> 20) % count);
        int result = lock(m);
        if (result == EDEADLK)
            continue;
        if (result == ETIMEDOUT) {
            printf("a thread waits for one that has ended\n");
            fflush(stdout);
            _exit(1);
        }
        must(result == 0 || result == EOWNERDEAD);
        locked++;
        died += result == EOWNERDEAD;
        if (x >> 50 & 1)
            must(pthread_mutex_unlock(m) == 0);
        else {
            left++;
            /* Some go at once, some when it has gone cold. */
            usleep(x >> 51 & 1 ? (x >> 30) % 30000 : 0);
            break;
        }
    }
    return NULL;
}

static void *sweeper(void *unused) {
    (void)unused;
    while (!may_end)
        sweep(1);
    return NULL;
}

static int many(long seconds) {
    enum { AT_ONCE = 24 };
    pthread_t threads[AT_ONCE], sweeps;
    unsigned long seed = 1;
    init(0);
    must(pthread_create(&sweeps, NULL, sweeper, NULL) == 0);
    for (time_t end = time(NULL) + seconds; time(NULL) < end;) {
        for (int i = 0; i < AT_ONCE; i++)
            must(pthread_create(&threads[i], NULL, short_life, (void *)seed++) == 0);
        for (int i = 0; i < AT_ONCE; i++)
            must(pthread_join(threads[i], NULL) == 0);
    }
    may_end = 1;
    must(pthread_join(sweeps, NULL) == 0);
    /* What nobody has taken over yet. */
    for (long i = 0; i < count; i++) {
        int result = lock(mutex(i));
        died += result == EOWNERDEAD;
        if (result != 0 && result != EOWNERDEAD) {
            printf("mutex %ld of %ld: nobody is told: %s\n", i, count, strerror(result));
            return 1;
        }
    }
    fprintf(stderr, "%ld locked, %ld left so, %ld told\n", locked, left, died);
    if (left == died)
        printf("all are told\n");
    else
        printf("%ld were left locked, %ld are told\n", left, died);
    return left != died;
}

int main(int argc, char **argv) {
    must(argc == 3);
    long n = atol(argv[2]);
    home = map(HOME);
    other = map(OTHER);
    fill(other, OTHER, 2);
    fill(home, HOME, 1);
    if (strcmp(argv[1], "many") == 0) {
        count = 2000;
        return many(n);
    }
    count = n;
    return one_owner(strcmp(argv[1], "process") == 0);
}

/* What only looks like a locked robust mutex is the program's data: robust_copies thread: copies of what a thread has locked that ends;
 * robust_copies child: what a forked child has inherited, in which its parent's threads have no names. */
#include "pages.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define HOME (24 * MIB)
#define OTHER (40 * MIB)
#define COUNT 64

static char *home, *other;
static atomic_int holds, may_end;

/* Each in a page of its own, beside noise. */
static pthread_mutex_t *mutex(long i) { return (pthread_mutex_t *)(home + 2 * i * PAGE + i % 31 * 64); }
static pthread_mutex_t *copy(long i) { return (pthread_mutex_t *)(home + (2 * i + 1) * PAGE + i % 29 * 64); }

static void *owner(void *unused) {
    (void)unused;
    for (long i = 0; i < COUNT; i++)
        must(pthread_mutex_lock(mutex(i)) == 0);
    holds = 1;
    while (!may_end)
        usleep(1000);
    return NULL;
}

static void sweep(int times) {
    for (int i = 0; i < times; i++)
        for (size_t at = 0; at < OTHER; at += PAGE)
            *(volatile char *)(other + at + i % PAGE) += 1;
}

static void start_owner(pthread_t *thread) {
    pthread_mutexattr_t attr;
    must(pthread_mutexattr_init(&attr) == 0);
    must(pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST) == 0);
    for (long i = 0; i < COUNT; i++)
        must(pthread_mutex_init(mutex(i), &attr) == 0);
    must(pthread_create(thread, NULL, owner, NULL) == 0);
    while (!holds)
        usleep(1000);
}

/* How many do not hold any more what they held. */
static long count_changed(pthread_mutex_t *(*which)(long), const pthread_mutex_t *held) {
    long changed = 0;
    for (long i = 0; i < COUNT; i++)
        changed += memcmp(which(i), &held[i], sizeof held[i]) != 0;
    return changed;
}

static int after_a_thread(void) {
    static pthread_mutex_t held[COUNT];
    pthread_t thread;
    start_owner(&thread);
    for (long i = 0; i < COUNT; i++) {
        memcpy(copy(i), mutex(i), sizeof *copy(i));
        memcpy(&held[i], mutex(i), sizeof held[i]);
    }
    sweep(4);
    may_end = 1;
    must(pthread_join(thread, NULL) == 0);
    for (int i = 0; i < 30; i++) {
        sweep(1);
        usleep(50000);
    }
    long told = 0;
    for (long i = 0; i < COUNT; i++)
        told += pthread_mutex_lock(mutex(i)) == EOWNERDEAD;
    printf("%ld of %d deaths are told, %ld copies are changed\n", told, COUNT, count_changed(copy, held));
    return 0;
}

/* What is inherited names threads that are not in the child's namespace. Without the right to make one it is as any other child. */
static int in_a_child(void) {
    static pthread_mutex_t held[COUNT];
    pthread_t thread;
    start_owner(&thread);
    for (long i = 0; i < COUNT; i++)
        memcpy(&held[i], mutex(i), sizeof held[i]);
    unshare(CLONE_NEWPID);
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        for (int i = 0; i < 20; i++) {
            sweep(1);
            usleep(50000);
        }
        printf("%ld mutexes are changed in the child\n", count_changed(mutex, held));
        fflush(stdout);
        _exit(0);
    }
    int status;
    must(waitpid(child, &status, 0) == child);
    printf("the child has ended: %d\n", status);
    may_end = 1;
    must(pthread_join(thread, NULL) == 0);
    return 0;
}

int main(int argc, char **argv) {
    must(argc == 2);
    home = map(HOME);
    other = map(OTHER);
    fill(other, OTHER, 2);
    fill(home, HOME, 1);
    return strcmp(argv[1], "child") == 0 ? in_a_child() : after_a_thread();
}

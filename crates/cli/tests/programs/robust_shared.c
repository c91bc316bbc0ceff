/* A mutex that processes share, whose owner is killed when it has slept for long: its list begins beside what the loader has set up for
 * its first thread, among memory of the program's. */
#include "pages.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>

#define OTHER (40 * MIB)
#define PATIENCE_S 10

struct shared {
    pthread_mutex_t mutex;
    atomic_int sweeps;
};

/* Lies in front of where the list begins, in one mapping with it. */
static _Thread_local char beside[256 << 10];

static struct shared *shared;
static char *other;

static void *sweeper(void *unused) {
    (void)unused;
    for (int i = 0;; i++) {
        for (size_t at = 0; at < OTHER; at += PAGE)
            *(volatile char *)(other + at + i % PAGE) += 1;
        shared->sweeps++;
    }
    return NULL;
}

static void own(void) {
    pthread_t thread;
    other = map(OTHER);
    fill(other, OTHER, 2);
    memset(beside, 1, sizeof beside);
    must(pthread_mutex_lock(&shared->mutex) == 0);
    must(pthread_create(&thread, NULL, sweeper, NULL) == 0);
    for (;;)
        pause();
}

int main(void) {
    shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(shared != MAP_FAILED);
    pthread_mutexattr_t attr;
    must(pthread_mutexattr_init(&attr) == 0);
    must(pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST) == 0);
    must(pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED) == 0);
    must(pthread_mutex_init(&shared->mutex, &attr) == 0);
    pid_t child = fork();
    must(child >= 0);
    if (child == 0)
        own();
    while (shared->sweeps < 6)
        usleep(1000);
    must(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    int result = pthread_mutex_timedlock(&shared->mutex, &until);
    printf("%s\n", result == EOWNERDEAD ? "the death is told" : strerror(result));
    return 0;
}

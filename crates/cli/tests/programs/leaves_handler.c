/* Handlers that interrupt madvise and munmap and never return to them: by siglongjmp, and by asynchronous cancellation. */
#include "pages.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>

#define HOT (4 * MIB)
#define LEAPS 300
#define CALLS 200

static sigjmp_buf out;
static volatile sig_atomic_t armed, leaps;
static char *hot;

static void leave(int sig) {
    (void)sig;
    if (!armed)
        return;
    armed = 0;
    leaps++;
    siglongjmp(out, 1);
}

static void *advise(void *arg) {
    for (int i = 0; i < CALLS; i++) {
        memset((char *)arg + i % 16 * PAGE, 1, PAGE);
        must(madvise((char *)arg + i % 16 * PAGE, PAGE, MADV_DONTNEED) == 0);
    }
    return NULL;
}

static void *cancelled(void *arg) {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (;;)
        madvise(arg, HOT, MADV_DONTNEED);
}

int main(void) {
    char *cold = map(48 * MIB);
    fill(cold, 48 * MIB, 1);
    hot = map(HOT);
    struct sigaction action = {.sa_handler = leave};
    must(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    must(setitimer(ITIMER_REAL, &often, NULL) == 0);
    while (leaps < LEAPS) {
        sigsetjmp(out, 1);
        armed = 1;
        while (leaps < LEAPS) {
            must(madvise(hot, HOT, MADV_DONTNEED) == 0);
            must(munmap(mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), MIB) == 0);
        }
    }
    armed = 0;
    must(setitimer(ITIMER_REAL, &never, NULL) == 0);
    pthread_t thread;
    must(pthread_create(&thread, NULL, advise, hot) == 0);
    must(pthread_join(thread, NULL) == 0);
    for (int i = 0; i < 20; i++) {
        must(pthread_create(&thread, NULL, cancelled, hot) == 0);
        usleep(500 + i * 37);
        must(pthread_cancel(thread) == 0);
        must(pthread_join(thread, NULL) == 0);
    }
    advise(hot);
    sigset_t mask;
    must(pthread_sigmask(SIG_SETMASK, NULL, &mask) == 0);
    for (int sig = 1; sig < 64; sig++)
        must(sig == 32 || sig == 33 || !sigismember(&mask, sig));
    check(cold, 48 * MIB, 1, "cold memory");
    puts("right");
    return 0;
}

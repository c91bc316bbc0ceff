/* Coroutines on stacks that malloc made, most of which are out, and signals while they run: handlers that use no stack of
 * their own, also within sigsuspend and ppoll. Prints what it finds; the same without uzswap. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>

enum { COROUTINES = 600, STACK = 64 << 10, ROUNDS = 6, KEPT = 24000 };

static ucontext_t start, coroutines[COROUTINES];
static uint64_t found[COROUTINES];
static volatile sig_atomic_t ticks, order;
static sigset_t within[2];
static int times[2];

static void on_alarm(int sig)
{
    (void)sig;
    volatile char room[2000];
    memset((char *)room, 1, sizeof room);
    ticks++;
}

/* Which of the two comes first, and what is blocked meanwhile. */
static void on_user(int sig)
{
    int at = sig == SIGUSR2;
    sigprocmask(SIG_SETMASK, 0, &within[at]);
    times[at] = ++order;
}

static int deep(int depth, int seed)
{
    volatile char room[500];
    memset((char *)room, seed + depth, sizeof room);
    int wrong = depth ? deep(depth - 1, seed) : 0;
    for (size_t i = 0; i < sizeof room; i++)
        wrong += room[i] != (char)(seed + depth);
    return wrong;
}

static unsigned long mask_of(const sigset_t *set)
{
    unsigned long mask = 0;
    for (int sig = 1; sig < 32; sig++)
        mask |= (unsigned long)(sigismember(set, sig) == 1) << sig;
    return mask & ~(1ul << SIGALRM);
}

/* Both signals wait until they are let in by a call. */
static void wait_for_both(int way)
{
    sigset_t both, none, old;
    sigemptyset(&both);
    sigaddset(&both, SIGUSR1);
    sigaddset(&both, SIGUSR2);
    sigaddset(&both, SIGALRM);
    sigprocmask(SIG_BLOCK, &both, &old);
    raise(SIGUSR1);
    raise(SIGUSR2);
    sigemptyset(&none);
    sigaddset(&none, SIGALRM);
    sigaddset(&none, SIGWINCH);
    order = 0;
    struct timespec second = {1, 0};
    int got = way ? ppoll(0, 0, &second, &none) : sigsuspend(&none);
    int error = errno;
    sigset_t after;
    sigprocmask(SIG_SETMASK, &old, &after);
    printf("%d: %d %d, %d then %d, %lx %lx, after %lx\n", way, got, error == EINTR, times[0], times[1], mask_of(&within[0]),
           mask_of(&within[1]), mask_of(&after));
}

static void live(int n)
{
    volatile char kept[KEPT];
    memset((char *)kept, n, sizeof kept);
    for (int round = 0; round < ROUNDS; round++) {
        found[n] += deep(60, n + round);
        if (n % 200 == 7 && round > 1)
            wait_for_both(round % 2);
        swapcontext(&coroutines[n], &start);
        for (int i = 0; i < KEPT; i++)
            found[n] += kept[i] != (char)n;
    }
    found[n] += 1000000;
    swapcontext(&coroutines[n], &start);
}

int main(void)
{
    struct sigaction alarm = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct sigaction user = {.sa_handler = on_user};
    sigaction(SIGALRM, &alarm, 0);
    sigaction(SIGUSR1, &user, 0);
    sigaction(SIGUSR2, &user, 0);
    for (int n = 0; n < COROUTINES; n++) {
        getcontext(&coroutines[n]);
        coroutines[n].uc_stack.ss_sp = malloc(STACK);
        coroutines[n].uc_stack.ss_size = STACK;
        coroutines[n].uc_link = &start;
        makecontext(&coroutines[n], (void (*)(void))live, 1, n);
    }
    struct itimerval often = {{0, 700}, {0, 700}};
    setitimer(ITIMER_REAL, &often, 0);
    for (int round = 0; round <= ROUNDS; round++)
        for (int n = 0; n < COROUTINES; n++)
            swapcontext(&start, &coroutines[n]);
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, 0);
    uint64_t sum = 0;
    for (int n = 0; n < COROUTINES; n++)
        sum += found[n];
    printf("%llu, %d\n", (unsigned long long)sum, ticks > 3);
    return 0;
}

/* Calls that never return to their caller, and handlers that return late: what was held for the one, and the frame of
 * the other, are memory as any other. Then more memory than fits. Says `right` as without uzswap. */
#include "pages.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>

#define MUCH (48 * MIB)

static int ends[2], is_wrong;
static char *much;

static void expect(int is, const char *what) {
    if (!is)
        printf("%s\n", what), is_wrong = 1;
}

static void use_much(void) {
    much = much ? much : mmap(0, MUCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fill(much, MUCH, 3);
    check(much, MUCH, 3, "much");
}

/* A time limit for each of many reads. */
static sigjmp_buf out;

static void jump(int signal) {
    (void)signal;
    siglongjmp(out, 1);
}

static void leave_by_jumps(void) {
    static char line[PAGE];
    signal(SIGALRM, jump);
    for (volatile int i = 0; i < 2300; i++)
        if (sigsetjmp(out, 1) == 0) {
            struct itimerval soon = {{0, 0}, {0, 200}};
            setitimer(ITIMER_REAL, &soon, 0);
            expect(read(ends[0], line, sizeof line) != 0, "an end");
        }
}

/* Threads that are cancelled where they wait. */
static void *wait_for_line(void *count) {
    static char line[PAGE];
    __atomic_fetch_add((int *)count, 1, __ATOMIC_SEQ_CST);
    return read(ends[0], line, sizeof line) ? count : 0;
}

static void leave_by_cancelling(void) {
    for (int round = 0; round < 23; round++) {
        pthread_t threads[100];
        volatile int waiting = 0;
        for (int i = 0; i < 100; i++)
            expect(!pthread_create(&threads[i], 0, wait_for_line, (void *)&waiting), "no thread");
        while (waiting < 100)
            usleep(1000);
        usleep(5000);
        for (int i = 0; i < 100; i++)
            pthread_cancel(threads[i]);
        for (int i = 0; i < 100; i++) {
            void *result = 0;
            pthread_join(threads[i], &result);
            expect(result == PTHREAD_CANCELED, "not cancelled");
        }
    }
}

/* Coroutines on stacks of malloc's memory, each of which a handler leaves, to return when its frame is cold. */
#define COROUTINES 200
static ucontext_t scheduler, coroutines[COROUTINES];
static int current, over;

static void leave(int signal) {
    (void)signal;
    swapcontext(&coroutines[current], &scheduler);
}

static void live(int n) {
    volatile double kept = n * 0.5;
    raise(SIGUSR1);
    expect(kept == n * 0.5, "another number");
    over++;
    swapcontext(&coroutines[n], &scheduler);
}

static void go_through(void) {
    for (current = 0; current < COROUTINES; current++)
        swapcontext(&scheduler, &coroutines[current]);
}

static void return_late(void) {
    struct sigaction action = {.sa_handler = leave, .sa_flags = SA_NODEFER};
    sigaction(SIGUSR1, &action, 0);
    use_much();
    for (int n = 0; n < COROUTINES; n++) {
        getcontext(&coroutines[n]);
        coroutines[n].uc_stack.ss_sp = malloc(64 << 10);
        coroutines[n].uc_stack.ss_size = 64 << 10;
        makecontext(&coroutines[n], (void (*)(void))live, 1, n);
    }
    go_through();
    use_much();
    go_through();
    expect(over == COROUTINES, "not all are over");
}

/* What a thread causes by what it does is blocked like the others, whatever call it makes. */
static volatile int handled;

static void handle(int signal) { handled = signal; }

static void block_raised(void) {
    const int raised[] = {SIGFPE, SIGTRAP, SIGILL, SIGUSR1};
    use_much();
    for (size_t i = 0; i < sizeof raised / sizeof *raised; i++) {
        sigset_t set;
        struct timespec now = {0, 0};
        sigemptyset(&set);
        sigaddset(&set, raised[i]);
        signal(raised[i], handle);
        sigprocmask(SIG_BLOCK, &set, 0);
        raise(raised[i]);
        munmap(mmap(0, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), MIB);
        expect(!handled, "handled though it is blocked");
        expect(sigtimedwait(&set, 0, &now) == raised[i], "it does not wait");
    }
    // Stacks, one of them over what is mapped: nothing else is blocked behind that.
    void *stack = mmap(0, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    mmap(stack, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_STACK, -1, 0);
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, 0, &blocked);
    expect(!sigismember(&blocked, SIGTERM), "SIGTERM is blocked");
}

int main(int argc, char **argv) {
    (void)argc;
    if (pipe(ends))
        return 1;
    switch (*argv[1]) {
    case 'j': leave_by_jumps(); break;
    case 'c': leave_by_cancelling(); break;
    case 'l': return_late(); break;
    default: block_raised();
    }
    use_much();
    if (!is_wrong)
        printf("right\n");
    return 0;
}

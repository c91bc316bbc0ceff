/* Where the frames of handlers lie, and what they return to: on pages of malloc's that are out, and without room; which
 * alternate stacks they are told, and leave; masks; a SIGBUS within a call that lets it in; one that returns in another
 * thread. And behind a filter of system calls. Prints what it finds; the same without uzswap. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

enum { PAGE = 4096, STACK = 64 << 10, SIZE = 48 << 20 };

static volatile uint64_t *memory;

/* Twice what there is room for. */
static int is_right(void)
{
    int wrong = 0;
    for (size_t i = 0; i < SIZE / 8; i += 64)
        wrong += memory[i] != i * 2654435761u;
    return !wrong;
}

static volatile int comes;

static void on_first(int sig)
{
    (void)sig;
    comes++;
}

static ucontext_t out, in;

/* Its frame begins so near to the end of a page that the handler's lies on those below. */
static void raise_at_a_page(void)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    volatile char *room = __builtin_alloca(here % PAGE + PAGE - 512);
    room[0] = 1;
    syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1);
    room[1] = 1;
}

static void frames_on_cold_pages(void)
{
    enum { STACKS = 40 };
    char *stacks[STACKS];
    struct sigaction action = {.sa_handler = on_first};
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < STACKS; i++) {
        stacks[i] = aligned_alloc(PAGE, STACK);
        memset(stacks[i], i, STACK);
    }
    printf("%d", is_right());
    for (int i = 0; i < STACKS; i++) {
        memset(stacks[i] + STACK - 2 * PAGE, i, 2 * PAGE);
        getcontext(&in);
        in.uc_stack = (stack_t){.ss_sp = stacks[i], .ss_size = STACK};
        in.uc_link = &out;
        makecontext(&in, raise_at_a_page, 0);
        swapcontext(&out, &in);
    }
    printf(" %d\n", comes);
}

/* The stack pointer itself is on the page below. */
static void wait_beyond_a_page(void)
{
    struct itimerval soon = {{0, 0}, {0, 100000}};
    setitimer(ITIMER_REAL, &soon, NULL);
    __asm__ volatile("mov %%rsp, %%rbx\n"
                     "and $-4096, %%rsp\n"
                     "sub $4160, %%rsp\n"
                     "1: cmpl $0, %0\n"
                     "je 1b\n"
                     "mov %%rbx, %%rsp" ::"m"(comes)
                     : "rbx", "memory");
}

static stack_t told, other;

static void on_stacks(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)info;
    told = ((ucontext_t *)context)->uc_stack;
    sigaltstack(&other, NULL);
}

static void stacks_of_handlers(void)
{
    stack_t own = {.ss_sp = malloc(STACK), .ss_size = STACK}, now;
    other = (stack_t){.ss_sp = malloc(STACK), .ss_size = STACK};
    struct sigaction action = {.sa_sigaction = on_stacks, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    sigaltstack(&own, NULL);
    raise(SIGUSR1);
    sigaltstack(NULL, &now);
    printf("%d %d %d %d\n", told.ss_sp == own.ss_sp, told.ss_flags, now.ss_sp == own.ss_sp, now.ss_flags);
}

static void on_mask(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)info;
    memset(&((ucontext_t *)context)->uc_sigmask, 255, 8);
}

static void masks_of_handlers(void)
{
    sigset_t all, none;
    struct sigaction action = {.sa_sigaction = on_mask, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    int right = is_right(), count = 0;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, &all);
    for (int sig = 1; sig < 32; sig++)
        count += sigismember(&all, sig) == 1;
    printf("%d, %d blocked\n", right, count);
}

static volatile char *beyond;
static sigjmp_buf again;
static volatile int errors;

static void on_bus_error(int sig)
{
    (void)sig;
    errors++;
    siglongjmp(again, 1);
}

static void on_call(int sig)
{
    (void)sig;
    if (!sigsetjmp(again, 1))
        *beyond = 1;
}

/* SIGBUS is blocked, and the call lets it in. */
static void errors_within_a_call(void)
{
    FILE *file = tmpfile();
    beyond = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    struct sigaction action = {.sa_handler = on_bus_error};
    sigaction(SIGBUS, &action, NULL);
    action.sa_handler = on_call;
    sigaction(SIGUSR1, &action, NULL);
    sigset_t blocked, none, after;
    sigemptyset(&none);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGBUS);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    raise(SIGUSR1);
    struct timespec second = {1, 0};
    int got = ppoll(NULL, 0, &second, &none);
    int error = errno;
    sigprocmask(SIG_SETMASK, &none, &after);
    printf("%d %d, %d, %d %d\n", got, error == EINTR, errors, sigismember(&after, SIGBUS), sigismember(&after, SIGUSR1));
}

static volatile int codes[2];

static void on_overflow(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)context;
    codes[0] = info->si_code;
    codes[1] = info->si_addr != NULL;
    siglongjmp(again, 1);
}

/* As before, but at the lowest page of a stack, whose handlers for overflows have another. */
static void frames_without_room(void)
{
    static char alternate[STACK];
    stack_t own = {.ss_sp = alternate, .ss_size = STACK};
    sigaltstack(&own, NULL);
    struct sigaction action = {.sa_sigaction = on_overflow, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
    action.sa_handler = on_first;
    action.sa_flags = 0;
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    char *stack = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(stack, 2 * PAGE, PROT_NONE);
    for (volatile int i = 0; i < 2; i++) {
        comes = codes[0] = 0;
        getcontext(&in);
        in.uc_stack = (stack_t){.ss_sp = stack + 2 * PAGE, .ss_size = 2 * PAGE};
        in.uc_link = &out;
        makecontext(&in, i ? wait_beyond_a_page : raise_at_a_page, 0);
        if (!sigsetjmp(again, 1))
            swapcontext(&out, &in);
        printf("%d %x %d, ", comes, codes[0], codes[1]);
    }
    signal(SIGSEGV, SIG_DFL);
    printf("%d\n", is_right());
}

enum { COROUTINES = 4, ROUNDS = 50 };

static ucontext_t coroutines[COROUTINES];
static ucontext_t schedulers[2];
static __thread int me;
static volatile int sums[COROUTINES], is_over[COROUTINES];
static pthread_barrier_t turn;

/* Whichever thread this is: it may be another than a moment ago. */
__attribute__((noinline)) static int which(void)
{
    __asm__ volatile("");
    return me;
}

static volatile int runs[2];

static void on_preempt(int sig)
{
    (void)sig;
    int thread = which();
    swapcontext(&coroutines[runs[thread]], &schedulers[thread]);
}

static void coroutine(int n)
{
    for (int i = 0; i < ROUNDS; i++) {
        for (size_t at = (n * ROUNDS + i) * 512; at < SIZE / 8; at += 131072)
            sums[n] += memory[at] == at * 2654435761u;
        raise(SIGUSR1);
    }
    is_over[n] = 1;
    int thread = which();
    swapcontext(&coroutines[n], &schedulers[thread]);
}

/* Two coroutines each at a time, and in the next round those of the other. */
static void *schedule(void *thread)
{
    me = (int)(intptr_t)thread;
    for (int round = 0; round <= 2 * ROUNDS; round++) {
        pthread_barrier_wait(&turn);
        for (int i = 0; i < COROUTINES / 2; i++) {
            int n = (me + round) % 2 + 2 * i;
            runs[me] = n;
            if (!is_over[n])
                swapcontext(&schedulers[me], &coroutines[n]);
        }
    }
    return NULL;
}

static void handlers_that_return_in_another_thread(void)
{
    struct sigaction action = {.sa_handler = on_preempt, .sa_flags = SA_NODEFER};
    sigaction(SIGUSR1, &action, NULL);
    for (int n = 0; n < COROUTINES; n++) {
        getcontext(&coroutines[n]);
        coroutines[n].uc_stack = (stack_t){.ss_sp = malloc(STACK), .ss_size = STACK};
        makecontext(&coroutines[n], (void (*)(void))coroutine, 1, n);
    }
    pthread_barrier_init(&turn, NULL, 2);
    pthread_t threads[2];
    for (intptr_t n = 0; n < 2; n++)
        pthread_create(&threads[n], NULL, schedule, (void *)n);
    for (int n = 0; n < 2; n++)
        pthread_join(threads[n], NULL);
    for (int n = 0; n < COROUTINES; n++)
        printf("%d %d, ", sums[n], is_over[n]);
    printf("%d\n", is_right());
}

/* A handler makes no calls but for that which it returns by. */
static void handlers_behind_a_filter(void)
{
    static const int forbidden[] = {SYS_rt_sigprocmask, SYS_gettid, SYS_tgkill, SYS_sigaltstack};
    enum { FORBIDDEN = sizeof forbidden / sizeof *forbidden };
    struct sock_filter rules[2 * FORBIDDEN + 2];
    int n = 0;
    rules[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < FORBIDDEN; i++) {
        rules[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, forbidden[i], 0, 1);
        rules[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    }
    rules[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog filter = {n, rules};
    struct sigaction action = {.sa_handler = on_first};
    sigaction(SIGALRM, &action, NULL);
    comes = 0;
    struct itimerval often = {{0, 100000}, {0, 100000}};
    setitimer(ITIMER_REAL, &often, NULL);
    fflush(stdout);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    int failed = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
    while (comes < 3)
        ;
    printf("%d %d\n", failed, is_right());
}

int main(void)
{
    memory = malloc(SIZE);
    for (size_t i = 0; i < SIZE / 8; i++)
        memory[i] = i * 2654435761u;
    frames_on_cold_pages();
    stacks_of_handlers();
    masks_of_handlers();
    errors_within_a_call();
    frames_without_room();
    handlers_that_return_in_another_thread();
    handlers_behind_a_filter();
    return 0;
}

// Handlers of SIGSEGV and SIGBUS that fault themselves, that have no stack to run on, that say what is blocked, and that fill the mask which they return to.
// Most memory is out. Each runs in a child, of which the status is said.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define PAGE 4096UL
#define PAGES 10240UL

static char *memory, *beyond;
static volatile int depth;
static sigjmp_buf back;

// The end of a file: an access behind it is SIGBUS.
static void fault(int signal) {
    *(volatile char *)(signal == SIGBUS ? beyond : 0) = 1;
}

static void again(int signal) {
    depth++;
    if (depth > 3)
        _exit(7);
    fault(signal);
}

static void say_mask(int signal) {
    sigset_t now;
    sigprocmask(SIG_BLOCK, 0, &now);
    printf("blocked in a handler: SEGV %d BUS %d USR1 %d\n", sigismember(&now, SIGSEGV), sigismember(&now, SIGBUS), sigismember(&now, SIGUSR1));
    fflush(stdout);
    (void)signal;
    siglongjmp(back, 1);
}

static void come_back(int signal) {
    (void)signal;
    depth++;
    siglongjmp(back, 1);
}

static void skip(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    depth++;
    ucontext_t *at = context;
    sigfillset(&at->uc_sigmask);
    // The store of `fault_here`, two bytes.
    at->uc_mcontext.gregs[REG_RIP] += 2;
}

static void fault_here(char *at) {
    // mov byte ptr [rdi], al
    __asm__ volatile(".byte 0x88, 0x07" ::"D"(at), "a"(1) : "memory");
}

static int deeper(int n) {
    volatile char room[4096];
    room[n % 4096] = n;
    return n < 0 ? room[0] : deeper(n + 1) + room[n % 4096];
}

static void install(int signal, void *handler, int flags) {
    struct sigaction action = {0};
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigaction(signal, &action, 0);
}

static void touch_all(void) {
    unsigned long sum = 0;
    for (unsigned long page = 0; page < PAGES; page++)
        sum += (unsigned char)memory[page * PAGE];
    printf("sum %lu\n", sum);
    fflush(stdout);
}

static void faults_itself(int signal) {
    install(signal, again, 0);
    fault(signal);
}

static void is_nested(int signal) {
    install(signal, again, SA_NODEFER);
    fault(signal);
}

static void has_no_stack(int signal) {
    install(signal, come_back, 0);
    if (signal == SIGSEGV)
        deeper(0);
}

static void has_a_stack(int signal) {
    static char stack[65536];
    stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&own, 0);
    install(signal, come_back, SA_ONSTACK);
    for (int n = 0; n < 3; n++)
        if (sigsetjmp(back, 1) == 0) {
            if (signal == SIGSEGV)
                deeper(0);
            fault(signal);
        }
    printf("came back %d times\n", depth);
    touch_all();
}

static void says_what_is_blocked(int signal) {
    install(signal, say_mask, 0);
    for (int n = 0; n < 2; n++)
        if (sigsetjmp(back, 1) == 0)
            fault(signal);
    sigset_t now;
    sigprocmask(SIG_BLOCK, 0, &now);
    printf("after: %d %d\n", sigismember(&now, SIGSEGV), sigismember(&now, SIGBUS));
}

// What a plain longjmp leaves blocked ends the process at the next fault.
static void leaves_it_blocked(int signal) {
    install(signal, come_back, 0);
    if (sigsetjmp(back, 0) == 0)
        fault(signal);
    touch_all();
    fault(signal);
}

static void fills_its_mask(int signal) {
    install(signal, skip, SA_SIGINFO);
    fault_here(signal == SIGBUS ? beyond : 0);
    sigset_t now;
    sigprocmask(SIG_BLOCK, 0, &now);
    printf("skipped %d, blocked: %d %d %d\n", depth, sigismember(&now, SIGSEGV), sigismember(&now, SIGBUS), sigismember(&now, SIGUSR1));
    touch_all();
    fault(signal);
}

// Sent while its handler runs, it comes when that has returned.
static volatile int ran;
static void sends_itself(int signal) {
    if (++ran == 1) {
        raise(signal);
        printf("in the handler: %d\n", ran);
        fflush(stdout);
    }
}

static void is_sent(int signal) {
    install(signal, sends_itself, 0);
    raise(signal);
    printf("ran %d times\n", ran);
    touch_all();
}

// All others are blocked, as in threads of runtimes.
static void is_the_only_one(int signal) {
    sigset_t others;
    sigfillset(&others);
    sigdelset(&others, SIGSEGV);
    sigdelset(&others, SIGBUS);
    sigprocmask(SIG_SETMASK, &others, 0);
    install(signal, come_back, 0);
    for (int n = 0; n < 2; n++)
        if (sigsetjmp(back, 1) == 0)
            fault(signal);
    printf("came back %d times\n", depth);
    touch_all();
}

int main(void) {
    struct rlimit stack = {1 << 20, 1 << 20}, core = {0, 0};
    setrlimit(RLIMIT_CORE, &core);
    setrlimit(RLIMIT_STACK, &stack);
    FILE *file = tmpfile();
    beyond = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    memory = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (unsigned long i = 0; i < PAGES * PAGE; i += 64)
        *(unsigned long *)(memory + i) = i / PAGE * 0x9e3779b97f4a7c15UL;
    // In the first thread of the program, which no fork has gone before.
    says_what_is_blocked(SIGBUS);
    is_sent(SIGBUS);
    ran = 0;
    void (*lives[])(int) = {faults_itself, is_nested, has_no_stack, has_a_stack, says_what_is_blocked, leaves_it_blocked, fills_its_mask, is_sent, is_the_only_one};
    const char *names[] = {"faults itself", "nested", "no stack", "a stack", "what is blocked", "left blocked", "fills its mask", "sent", "all others blocked"};
    int signals[] = {SIGSEGV, SIGBUS};
    for (unsigned long n = 0; n < sizeof lives / sizeof *lives; n++)
        for (int i = 0; i < 2; i++) {
            // Filled by a handler that the kernel calls itself, it is what the kernel blocks.
            if (lives[n] == fills_its_mask && signals[i] == SIGSEGV)
                continue;
            fflush(stdout);
            int child = fork();
            if (child == 0) {
                alarm(30);
                lives[n](signals[i]);
                fflush(stdout);
                _exit(3);
            }
            int status;
            waitpid(child, &status, 0);
            printf("%s, %s: exit %d signal %d\n", names[n], i ? "SIGBUS" : "SIGSEGV", WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                   WIFSIGNALED(status) ? WTERMSIG(status) : 0);
        }
    return 0;
}

/* Handlers that begin with a mask of their own: let in by the call that opens their signal, in a thread that began under a
 * filter of system calls, and for a call that the filter traps. Each reads memory that has gone cold, or causes a signal of
 * its own. Prints what was blocked; the same without uzswap. */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { SIZE = 40 << 20, PAGE = 4096 };

static volatile uint64_t *memory;
static volatile char *beyond;
static sigjmp_buf back;
static volatile int buses;
static volatile uint64_t blocked;

static int pages_that_are_right(void)
{
    int right = 0;
    for (size_t page = 0; page < SIZE / PAGE; page++)
        right += memory[page * PAGE / 8] == page;
    return right;
}

static uint64_t mask_now(void)
{
    uint64_t mask = 0;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof mask);
    return mask;
}

static void on_bus(int signal)
{
    (void)signal;
    buses++;
    siglongjmp(back, 1);
}

static void cause_bus(int signal)
{
    (void)signal;
    if (!sigsetjmp(back, 1))
        *beyond = 1;
}

static void execute(int signal)
{
    (void)signal;
    fflush(stdout);
    if (!fork()) {
        execl("/bin/grep", "grep", "SigBlk", "/proc/self/status", NULL);
        _exit(1);
    }
    wait(NULL);
}

static void note(int signal)
{
    (void)signal;
    blocked = mask_now();
    pages_that_are_right();
}

static void answer(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = pages_that_are_right();
}

static void let_in(int signal)
{
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    raise(signal);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

static void *under_a_filter(void *none)
{
    printf("trapped: %ld\n", syscall(SYS_getpgrp));
    raise(SIGALRM);
    printf("blocked: %lx\n", (unsigned long)blocked);
    return none;
}

int main(void)
{
    memory = malloc(SIZE);
    for (size_t page = 0; page < SIZE / PAGE; page++)
        memory[page * PAGE / 8] = page;
    FILE *file = tmpfile();
    beyond = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    signal(SIGBUS, on_bus);
    signal(SIGUSR1, cause_bus);
    signal(SIGUSR2, execute);
    signal(SIGALRM, note);
    let_in(SIGUSR2);
    let_in(SIGUSR1);
    let_in(SIGUSR1);
    printf("buses: %d, blocked: %lx\n", buses, (unsigned long)mask_now());

    struct sigaction traps = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &traps, NULL);
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpgrp, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        return 1;
    pthread_t thread;
    for (int n = 0; n < 3; n++) {
        pthread_create(&thread, NULL, under_a_filter, NULL);
        pthread_join(thread, NULL);
    }
    return pages_that_are_right() != SIZE / PAGE;
}

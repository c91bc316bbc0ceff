/* System calls of code that is made at run time, or loaded later, whose memory is out. Prints what it finds; the same
 * without uzswap. With a name: a library that is to be loaded, of -DLIBRARY. */
#define _GNU_SOURCE
#include <stdint.h>

/* A call as any compiler would write it in place. */
long here(long number, long a, long b, long c, long d)
{
    register long fourth __asm__("r10") = d;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth)
                     : "rcx", "r11", "memory");
    return result;
}

#ifndef LIBRARY
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define PAGE 4096ul
#define MIB (1ul << 20)
#define MUST(x) ((x) ? (void)0 : (printf("%d: %s: %s\n", __LINE__, #x, strerror(errno)), exit(1)))

typedef long call(long number, long a, long b, long c, long d);

/* mov rax, rdi; mov rdi, rsi; mov rsi, rdx; mov rdx, rcx; mov r10, r8; syscall; ret */
static const unsigned char CODE[] = {0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0x48, 0x89, 0xd6, 0x48,
                                     0x89, 0xca, 0x4d, 0x89, 0xc2, 0x0f, 0x05, 0xc3};

static char *cold;
static const size_t LEN = 64 * MIB;

static uint64_t word(size_t at) { return at / 128 * 0x9e3779b97f4a7c15; }

static void fill(void)
{
    for (size_t i = 0; i < LEN; i += 8)
        *(uint64_t *)(cold + i) = word(i);
}

static size_t wrong(void)
{
    size_t n = 0;
    for (size_t i = 0; i < LEN; i += 8)
        n += *(volatile uint64_t *)(cold + i) != word(i);
    return n;
}

/* Where n is taken for random: far from what was used last. */
static char *place(unsigned n, size_t len) { return cold + (n * 2654435761u) % (LEN / PAGE - len / PAGE - 1) * PAGE; }

static call *made(void)
{
    char *code = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(code != MAP_FAILED);
    memcpy(code, CODE, sizeof CODE);
    MUST(!mprotect(code, PAGE, PROT_READ | PROT_EXEC));
    return (call *)code;
}

/* Each call reaches memory that is out by now, and is right. */
static int failures(call *raw)
{
    int ends[2], failed = 0;
    MUST(!pipe(ends));
    for (unsigned n = 0; n < 400; n++) {
        char *from = place(2 * n, 4 * PAGE), *to = place(2 * n + 1, 4 * PAGE), kept[3 * PAGE];
        size_t len = 1 + n * 31 % (3 * PAGE - 1);
        failed += raw(SYS_write, ends[1], (long)from, len, 0) != (long)len;
        memcpy(kept, to, sizeof kept);
        raw(SYS_madvise, (long)to & -PAGE, PAGE, 21, 0);
        failed += raw(SYS_read, ends[0], (long)to, len, 0) != (long)len;
        failed += memcmp(to, from, len) != 0;
        memcpy(to, kept, sizeof kept);
    }
    for (unsigned n = 0; n < 100; n++) {
        char *path = place(7 * n, PAGE) + 8, kept[4];
        memcpy(kept, path, 4);
        memcpy(path, "/", 2);
        raw(SYS_madvise, (long)path & -PAGE, PAGE, 21, 0);
        struct stat *stat = (struct stat *)place(11 * n + 5, PAGE), before = *stat;
        failed += raw(SYS_stat, (long)path, (long)stat, 0, 0) != 0 || !S_ISDIR(stat->st_mode);
        *stat = before;
        memcpy(path, kept, 4);
    }
    failed += raw(SYS_write, ends[1], 8, 1, 0) != -EFAULT;
    failed += raw(SYS_getppid, 0, 0, 0, 0) != getppid();
    close(ends[0]);
    close(ends[1]);
    return failed;
}

static void calls(const char *whose, call *raw)
{
    printf("%s: %d failed\n", whose, failures(raw));
    fflush(stdout);
}

/* Processes made by calls that nobody announced. */
static void children(const char *whose, call *raw)
{
    for (int kind = 0; kind < 2; kind++) {
        long child = kind ? raw(SYS_clone, SIGCHLD, 0, 0, 0) : raw(SYS_fork, 0, 0, 0, 0);
        if (!child) {
            size_t n = wrong();
            raw(SYS_exit_group, n ? 1 : 7, 0, 0, 0);
        }
        int status = -1;
        MUST(child > 0 && waitpid(child, &status, 0) == child);
        printf("%s, child %d: %x\n", whose, kind, status);
    }
    fflush(stdout);
}

static void *thread(void *raw)
{
    int ends[2];
    long failed = 0;
    MUST(!pipe(ends));
    for (unsigned n = 0; n < 200; n++) {
        char *from = place(n, PAGE), to[64];
        failed += ((call *)raw)(SYS_write, ends[1], (long)from, 64, 0) != 64;
        failed += ((call *)raw)(SYS_read, ends[0], (long)to, 64, 0) != 64;
        failed += memcmp(to, from, 64) != 0;
    }
    close(ends[0]);
    close(ends[1]);
    return (void *)failed;
}

static void threads(call *raw)
{
    pthread_t ids[4];
    long failed = 0;
    for (int i = 0; i < 4; i++)
        MUST(!pthread_create(&ids[i], 0, thread, (void *)raw));
    for (int i = 0; i < 4; i++) {
        void *its;
        pthread_join(ids[i], &its);
        failed += (long)its;
    }
    printf("threads: %ld failed\n", failed);
}

static volatile int ticks;

static void tick(int signal)
{
    (void)signal;
    ticks++;
}

/* Handlers return thousands of times, in the middle of faults and of such calls. */
static void interrupted(call *raw)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    struct itimerspec often = {{0, 200000}, {0, 200000}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    struct sigaction now;
    MUST(!sigaction(SIGALRM, &action, 0) && !sigaction(SIGALRM, 0, &now) && now.sa_handler == tick);
    MUST(!timer_create(CLOCK_MONOTONIC, &event, &timer) && !timer_settime(timer, 0, &often, 0));
    int failed = 0;
    while (ticks < 1000)
        failed += failures(raw);
    printf("interrupted: %d failed\n", failed);
    timer_settime(timer, 0, &never, 0);
    signal(SIGALRM, SIG_DFL);
}

static volatile int code, number, seen;

static void bad_call(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    code = info->si_code;
    number = info->si_syscall;
    seen++;
    if (info->si_code == 1)
        ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = 4711;
}

static void signals(call *raw)
{
    struct sigaction action = {.sa_sigaction = bad_call, .sa_flags = SA_SIGINFO}, now;
    MUST(!sigaction(SIGSYS, &action, 0) && !sigaction(SIGSYS, 0, &now));
    printf("handler %d, flags %x\n", now.sa_sigaction == bad_call, now.sa_flags & ~0x04000000);
    raise(SIGSYS);
    printf("raised: %d, code %d\n", seen, code);
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGSYS);
    sigprocmask(SIG_BLOCK, &set, &old);
    raise(SIGSYS);
    calls("blocked", raw);
    sigprocmask(SIG_SETMASK, 0, &set);
    printf("blocked: %d, %d now, %d before\n", seen, sigismember(&set, SIGSYS), sigismember(&old, SIGSYS));
    sigprocmask(SIG_SETMASK, &old, 0);
    printf("unblocked: %d\n", seen);
    fflush(stdout);
}

/* A filter answers getuid by a signal, as sandboxes do. */
static void filtered(call *raw)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getuid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    seen = 0;
    MUST(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
    long libc = syscall(SYS_getuid), made = raw(SYS_getuid, 0, 0, 0, 0);
    printf("filtered: %ld, %ld, %d times, code %d, number %d\n", libc, made, seen, code, number);
    calls("behind a filter", raw);
}

int main(int argc, char **argv)
{
    cold = mmap(0, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(cold != MAP_FAILED);
    fill();
    call *raw = made();
    calls("made", raw);
    calls("here", here);
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : 0;
    if (argc > 1) {
        MUST(library);
        calls("loaded", (call *)dlsym(library, "here"));
        children("loaded", (call *)dlsym(library, "here"));
    }
    children("made", raw);
    threads(raw);
    interrupted(raw);
    signals(raw);
    printf("wrong: %zu\n", wrong());
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        calls("a child", raw);
        filtered(raw);
        exit(wrong() ? 1 : 0);
    }
    int status;
    waitpid(child, &status, 0);
    printf("the child: %x\n", status);
    return 0;
}
#endif

/* Signals of a program whose own faults raise SIGBUS: it must not see the difference. Prints what it
 * finds; the same without uzswap. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define PAGE 4096ul
#define MIB (1ul << 20)
#define MUST(x) ((x) ? (void)0 : (printf("%d: %s: %s\n", __LINE__, #x, strerror(errno)), exit(1)))

extern char **environ;
static char *cold;
static size_t len;

static uint64_t word(size_t at) { return at / 128 * 0x9e3779b97f4a7c15; }

static void fill(void) {
    for (size_t i = 0; i < len; i += 8)
        *(uint64_t *)(cold + i) = word(i);
}

/* All of it, of which only a part fits: each page raises a fault. */
static void check(const char *when) {
    for (size_t i = 0; i < len; i += PAGE / 4)
        if (*(volatile uint64_t *)(cold + i) != word(i)) {
            printf("%s: byte %zu is wrong\n", when, i);
            exit(1);
        }
}

static void touch_some(unsigned from) {
    for (unsigned i = 0; i < 50; i++) {
        size_t at = (from * 7919 + i * 104729) % (len / PAGE) * PAGE;
        if (*(volatile uint64_t *)(cold + at) != word(at))
            _exit(77);
    }
}

static void say_action(const char *what, int sig) {
    struct sigaction now;
    MUST(sigaction(sig, 0, &now) == 0);
    printf("%s: %s flags %x, SIGBUS %s in its mask\n", what,
           now.sa_handler == SIG_DFL ? "default" : now.sa_handler == SIG_IGN ? "ignored" : "handled",
           (unsigned)now.sa_flags & ~0x04000000u, sigismember(&now.sa_mask, SIGBUS) ? "is" : "is not");
}

static void say_mask(const char *what) {
    sigset_t now;
    MUST(pthread_sigmask(SIG_SETMASK, 0, &now) == 0);
    printf("%s: blocked:", what);
    for (int sig = 1; sig < 65; sig++)
        if (sigismember(&now, sig) == 1)
            printf(" %d", sig);
    printf("\n");
}

static sigjmp_buf back;
static volatile int caught, codes, where_ok, on_stack;
static char *alternate;
static size_t alternate_len;
static char *truncated;

static int is_on_alternate(void) {
    char here;
    return &here >= alternate && &here < alternate + alternate_len;
}

static void on_bus(int sig, siginfo_t *info, void *context) {
    (void)context;
    caught += sig == SIGBUS;
    codes = info->si_code;
    where_ok = info->si_addr == (void *)(truncated + PAGE);
    on_stack = alternate ? is_on_alternate() : 0;
    touch_some(caught);
    siglongjmp(back, 1);
}

/* Memory of a file beyond its end. */
static void own_bus(const char *what) {
    if (sigsetjmp(back, 1) == 0) {
        (void)*(volatile char *)(truncated + PAGE);
        printf("%s: no signal\n", what);
        return;
    }
    printf("%s: %d caught, code %d, address %s, on the alternate stack: %d\n", what, caught, codes,
           where_ok ? "right" : "wrong", on_stack);
    check(what);
}

static void on_usr(int sig) {
    caught += sig == SIGUSR1;
    on_stack = alternate ? is_on_alternate() : 0;
    touch_some(caught + 50);
}

static void on_alarm(int sig) {
    (void)sig;
    caught++;
    touch_some(caught);
}

static void actions(void) {
    struct sigaction act = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};
    say_action("at first", SIGBUS);
    sigfillset(&act.sa_mask);
    MUST(sigaction(SIGBUS, &act, 0) == 0);
    say_action("all blocked meanwhile", SIGBUS);
    own_bus("own SIGBUS");
    sigemptyset(&act.sa_mask);
    act.sa_flags |= SA_RESETHAND | SA_NODEFER;
    MUST(sigaction(SIGBUS, &act, 0) == 0);
    own_bus("once");
    say_action("after once", SIGBUS);
    struct sigaction usr = {.sa_handler = on_usr};
    sigfillset(&usr.sa_mask);
    MUST(sigaction(SIGUSR1, &usr, 0) == 0);
    say_action("SIGUSR1", SIGUSR1);
    for (int i = 0; i < 5; i++) {
        fill();
        raise(SIGUSR1);
    }
    printf("%d handlers touched what is out\n", caught);
    errno = 0;
    printf("SIGKILL: %d %d\n", sigaction(SIGKILL, &usr, 0), errno == EINVAL);
    printf("nowhere: %d %d\n", (int)syscall(SYS_rt_sigaction, SIGBUS, 1, 0, 8), errno == EFAULT);
}

static void stacks(void) {
    stack_t old, mine = {.ss_size = 64 * 1024};
    MUST(sigaltstack(0, &old) == 0);
    printf("at first: flags %d size %zu\n", old.ss_flags, old.ss_size);
    alternate_len = mine.ss_size;
    alternate = mine.ss_sp = cold + len; /* managed, and never touched */
    MUST(sigaltstack(&mine, &old) == 0);
    MUST(sigaltstack(0, &old) == 0);
    printf("mine: %d flags %d size %zu\n", old.ss_sp == mine.ss_sp, old.ss_flags, old.ss_size);
    struct sigaction act = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    MUST(sigaction(SIGBUS, &act, 0) == 0);
    fill();
    own_bus("own SIGBUS there");
    struct sigaction usr = {.sa_handler = on_usr, .sa_flags = SA_ONSTACK};
    MUST(sigaction(SIGUSR1, &usr, 0) == 0);
    say_action("SIGUSR1 there", SIGUSR1);
    fill();
    raise(SIGUSR1);
    printf("SIGUSR1 on the alternate stack: %d\n", on_stack);
    stack_t small = {.ss_sp = alternate, .ss_size = 100}, odd = {.ss_sp = alternate, .ss_size = 65536, .ss_flags = 64};
    printf("small: %d %d", sigaltstack(&small, 0), errno == ENOMEM);
    printf(", odd: %d %d\n", sigaltstack(&odd, 0), errno == EINVAL);
    stack_t none = {.ss_flags = SS_DISABLE};
    MUST(sigaltstack(&none, &old) == 0);
    printf("was %d\n", old.ss_sp == mine.ss_sp);
    raise(SIGUSR1);
    printf("without one: %d\n", on_stack);
    MUST(sigaltstack(0, &old) == 0);
    printf("at last: flags %d\n", old.ss_flags);
    alternate = 0;
}

static void masks(void) {
    sigset_t all, none, bus, old;
    sigfillset(&all);
    sigemptyset(&none);
    sigemptyset(&bus);
    sigaddset(&bus, SIGBUS);
    say_mask("at first");
    MUST(pthread_sigmask(SIG_BLOCK, &bus, &old) == 0);
    say_mask("SIGBUS blocked");
    fill();
    check("while SIGBUS is blocked");
    MUST(pthread_sigmask(SIG_SETMASK, &all, &old) == 0);
    printf("it was: %d\n", sigismember(&old, SIGBUS));
    say_mask("all blocked");
    check("while all is blocked");
    MUST(pthread_sigmask(SIG_UNBLOCK, &bus, &old) == 0);
    printf("it was: %d\n", sigismember(&old, SIGBUS));
    MUST(pthread_sigmask(SIG_SETMASK, &none, 0) == 0);
    say_mask("at last");
    struct sigaction alarm = {.sa_handler = on_alarm};
    sigfillset(&alarm.sa_mask);
    MUST(sigaction(SIGALRM, &alarm, 0) == 0);
    sigdelset(&all, SIGALRM);
    struct timespec long_time = {5, 0};
    int queue = epoll_create1(0);
    struct epoll_event event;
    for (int i = 0; i < 4; i++) {
        caught = 0;
        fill();
        struct itimerval soon = {{0, 0}, {0, 30000}};
        MUST(setitimer(ITIMER_REAL, &soon, 0) == 0);
        int got = i == 0   ? sigsuspend(&all)
                  : i == 1 ? ppoll(0, 0, &long_time, &all)
                  : i == 2 ? pselect(0, 0, 0, 0, &long_time, &all)
                           : epoll_pwait(queue, &event, 1, 5000, &all);
        printf("%d: %d %d, %d caught\n", i, got, errno == EINTR, caught);
        say_mask("after it");
    }
    close(queue);
}

/* Sent by somebody, while it is blocked. */
static void on_sent(int sig) { caught += sig == SIGBUS; }

static void sent(void) {
    sigset_t bus;
    sigemptyset(&bus);
    sigaddset(&bus, SIGBUS);
    caught = 0;
    signal(SIGBUS, on_sent);
    raise(SIGBUS);
    printf("sent: %d", caught);
    pthread_sigmask(SIG_BLOCK, &bus, 0);
    raise(SIGBUS);
    printf(", blocked: %d", caught);
    pthread_sigmask(SIG_UNBLOCK, &bus, 0);
    printf(", then: %d", caught);
    signal(SIGBUS, SIG_IGN);
    raise(SIGBUS);
    printf(", ignored: %d\n", caught);
    fill();
    check("while SIGBUS is ignored");
    signal(SIGBUS, SIG_DFL);
    pid_t child = fork();
    if (child == 0) {
        raise(SIGBUS);
        _exit(1);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child);
    printf("of its default a child dies: %d", WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    child = fork();
    if (child == 0) {
        (void)*(volatile char *)(truncated + PAGE);
        _exit(1);
    }
    MUST(waitpid(child, &status, 0) == child);
    printf(" %d\n", WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

static void children(char *self) {
    sigset_t bus;
    sigemptyset(&bus);
    sigaddset(&bus, SIGBUS);
    struct sigaction act = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};
    MUST(sigaction(SIGBUS, &act, 0) == 0);
    for (int i = 0; i < 3; i++) {
        fflush(stdout);
        pid_t child;
        char *args[] = {self, "masks", 0};
        posix_spawnattr_t attr;
        posix_spawnattr_init(&attr);
        if (i == 1) {
            posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
            posix_spawnattr_setsigmask(&attr, &bus);
            posix_spawnattr_setsigdefault(&attr, &bus);
        }
        if (i == 2)
            pthread_sigmask(SIG_BLOCK, &bus, 0);
        fill();
        MUST(posix_spawn(&child, self, 0, &attr, args, environ) == 0);
        int status;
        MUST(waitpid(child, &status, 0) == child);
        say_action("spawned", SIGBUS);
        say_mask("spawned");
    }
    pthread_sigmask(SIG_UNBLOCK, &bus, 0);
    own_bus("after spawning");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        fill();
        own_bus("in a child");
        say_mask("in a child");
        exit(3);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child);
    printf("child: %d\n", WEXITSTATUS(status));
}

static void *in_thread(void *arg) {
    touch_some((unsigned)(uintptr_t)arg);
    raise(SIGUSR1);
    stack_t mine = {.ss_sp = malloc(65536), .ss_size = 65536}, old;
    MUST(sigaltstack(&mine, &old) == 0);
    touch_some((unsigned)(uintptr_t)arg + 1);
    raise(SIGUSR1);
    return old.ss_flags == SS_DISABLE ? arg : 0;
}

static void threads(void) {
    struct sigaction usr = {.sa_handler = on_usr, .sa_flags = SA_ONSTACK};
    MUST(sigaction(SIGUSR1, &usr, 0) == 0);
    /* More, one after the other, than there can be at a time. */
    for (uintptr_t round = 0; round < 40; round++) {
        pthread_t all[20];
        for (uintptr_t i = 0; i < 20; i++)
            MUST(pthread_create(&all[i], 0, in_thread, (void *)(round + i + 1)) == 0);
        for (uintptr_t i = 0; i < 20; i++) {
            void *got;
            MUST(pthread_join(all[i], &got) == 0 && got == (void *)(round + i + 1));
        }
    }
    check("after threads");
    printf("threads\n");
}

/* Coroutines on stacks that are managed, and mostly out. */
static ucontext_t main_context, contexts[200];

static void coroutine(int n) {
    char local[2000];
    memset(local, n, sizeof local);
    for (int i = 0; i < 4; i++) {
        touch_some(n + i);
        swapcontext(&contexts[n], &main_context);
        for (size_t j = 0; j < sizeof local; j++)
            if (local[j] != (char)n)
                _exit(78);
    }
}

static void coroutines(void) {
    char *stacks = mmap(0, 200 * 64 * 1024, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(stacks != MAP_FAILED);
    for (int i = 0; i < 200; i++) {
        getcontext(&contexts[i]);
        contexts[i].uc_stack.ss_sp = stacks + i * 64 * 1024;
        contexts[i].uc_stack.ss_size = 64 * 1024;
        contexts[i].uc_link = &main_context;
        makecontext(&contexts[i], (void (*)(void))coroutine, 1, i);
    }
    for (int round = 0; round < 5; round++)
        for (int i = 0; i < 200; i++)
            swapcontext(&main_context, &contexts[i]);
    printf("coroutines\n");
}

static void descriptors(void) {
    MUST(close_range(3, ~0u, 0) == 0);
    check("after close_range");
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    int odd = 0;
    for (int fd = 3; fd < 4096; fd++)
        odd += close(fd) == 0;
    printf("open: %d\n", odd);
    fill();
    check("after close");
    printf("none: %d %d\n", close_range(5, 4, 0), errno == EINVAL);
}

static void filtered(void) {
    /* Only what is needed to go on. */
    static const int allowed[] = {SYS_read,  SYS_write, SYS_futex, SYS_rt_sigreturn, SYS_exit_group, SYS_madvise, SYS_brk,
                                  SYS_fstat, SYS_mmap,  SYS_munmap, SYS_newfstatat,   SYS_sched_yield, SYS_getpid,
                                  SYS_rt_sigprocmask, SYS_waitid};
    struct sock_filter code[64] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    int n = 1;
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {n, code};
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    check("behind a filter");
    fill();
    check("behind a filter, again");
    printf("filtered\n");
}

int main(int argc, char **argv) {
    setvbuf(stdout, 0, _IOLBF, 4096);
    if (argc > 1) {
        say_action("program", SIGBUS);
        say_mask("program");
        return 0;
    }
    len = 48 * MIB;
    cold = mmap(0, len + MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(cold != MAP_FAILED);
    int file = memfd_create("truncated", 0);
    MUST(file >= 0 && ftruncate(file, PAGE) == 0);
    truncated = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    MUST(truncated != MAP_FAILED);
    fill();
    actions();
    stacks();
    masks();
    sent();
    children(argv[0]);
    threads();
    coroutines();
    descriptors();
    filtered();
    return 0;
}

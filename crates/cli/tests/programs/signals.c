// Lives with signals: what is inherited, what is handled in the middle of everything, what ends it.
#include "life.h"
#include <setjmp.h>
#include <sys/signalfd.h>
#include <sys/time.h>

// What the kernel says that this process ignores, blocks and handles.
static int dispositions(int argc, char **argv) {
    (void)argc, (void)argv;
    uint64_t *memory = fill(FILL, 1);
    check(memory, FILL, 1, "all");
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    while (fgets(line, sizeof line, status))
        // Less 32 and 33, which are libc's: what it does to them depends on who spawned us.
        if (!strncmp(line, "Sig", 3) && strncmp(line, "SigQ", 4))
            say("%.7s %#lx\n", line, (long)(strtoull(line + 8, 0, 16) & ~(3ull << 31)));
    for (int signal = 1; signal < 32; signal++) {
        struct sigaction action;
        must(sigaction(signal, 0, &action) == 0);
        if (action.sa_handler != SIG_DFL)
            say("%d is %s\n", signal, action.sa_handler == SIG_IGN ? "ignored" : "handled");
    }
    return 0;
}

// die SIGNAL: by its own hand, with the default disposition.
static int die(int argc, char **argv) {
    must(argc == 2);
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    uint64_t *memory = fill(6 * MIB, 1);
    check(memory, 6 * MIB, 1, "all");
    say("signal %s\n", argv[1]);
    raise(atoi(argv[1]));
    return 0;
}

// die-of segv|bus|ill|fpe|abort|trap: of what a program does wrong.
static int die_of(int argc, char **argv) {
    must(argc == 2);
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    uint64_t *memory = fill(FILL, 1);
    check(memory, FILL, 1, "all");
    switch (argv[1][0]) {
    case 's':
        must(mprotect(memory, FILL, PROT_READ) == 0);
        *(volatile uint64_t *)memory = 1;
        break;
    case 'b': {
        int file = open(".", O_TMPFILE | O_RDWR, 0600);
        volatile char *beyond = mmap(0, 4096, PROT_READ, MAP_SHARED, file, 0);
        must(file >= 0 && beyond != MAP_FAILED);
        say("%d", beyond[0]);
        break;
    }
    case 'i':
        __builtin_trap();
    case 'f': {
        volatile int zero = 0, many = 7;
        say("%d", many / zero);
        break;
    }
    case 'a':
        abort();
    case 't':
        __asm__ volatile("int3");
    }
    return WRONG;
}

static sigjmp_buf back;
static volatile sig_atomic_t jumps, ticks;

static void jump(int signal) {
    (void)signal;
    jumps++;
    siglongjmp(back, 1);
}

// Out of a fault on memory that may not be touched, again and again, with cold memory around it.
static int jump_out_of_faults(int argc, char **argv) {
    (void)argc, (void)argv;
    uint64_t *memory = fill(FILL, 1);
    signal(SIGSEGV, jump);
    volatile size_t page = 0;
    must(mprotect(memory, FILL, PROT_NONE) == 0);
    while (page < FILL / 4096) {
        if (sigsetjmp(back, 1) == 0)
            say("read %d", *(volatile char *)(memory + page * WORDS));
        must(mprotect(memory + page * WORDS, 4096, PROT_READ | PROT_WRITE) == 0);
        page += 1;
    }
    check(memory, FILL, 1, "after the jumps");
    say("%d jumps\n", jumps);
    return 0;
}

// Out of a timer's handler that interrupts whatever there is: reads, madvise, mmap.
static int jump_out_of_calls(int argc, char **argv) {
    (void)argc, (void)argv;
    uint64_t *memory = fill(FILL, 1);
    signal(SIGALRM, jump);
    struct itimerval often = {{0, 900}, {0, 900}}, never = {{0, 0}, {0, 0}};
    volatile int calls = 0;
    volatile unsigned at = 0;
    sigsetjmp(back, 1);
    setitimer(ITIMER_REAL, &often, 0);
    while (jumps < 200) {
        at = at * 1103515245 + 12345;
        size_t page = at / 65536 % (FILL / 4096);
        if (memory[page * WORDS + 1] != word(1, page, 1))
            break;
        if (page % 3 == 0)
            madvise(memory + page * WORDS, 4096, MADV_COLD);
        // Those that are jumped away from are lost: that is the program's affair.
        void *more = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (more != MAP_FAILED) {
            *(char *)more = 1;
            madvise(more, 65536, MADV_DONTNEED);
            munmap(more, 65536);
        }
        calls++;
    }
    setitimer(ITIMER_REAL, &never, 0);
    signal(SIGALRM, SIG_IGN);
    check(memory, FILL, 1, "after the jumps");
    say("%s\n", jumps >= 200 ? "jumped" : "DIFFERENCE");
    return 0;
}

static void tick(int signal) {
    (void)signal;
    ticks++;
}

// A handler without SA_RESTART: reading memory is not interrupted, what waits is.
static int ticking(int argc, char **argv) {
    (void)argc, (void)argv;
    struct sigaction action = {.sa_handler = tick};
    sigaction(SIGALRM, &action, 0);
    struct itimerval often = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &often, 0);
    uint64_t *memory = fill(FILL, 1);
    int ends[2];
    must(pipe(ends) == 0);
    for (int i = 0; i < 3; i++) {
        check(memory, FILL, 1, "between ticks");
        // Calls that read and write this memory while they are interrupted.
        int file = open(".", O_TMPFILE | O_RDWR, 0600);
        must(file >= 0);
        for (size_t done = 0; done < FILL;) {
            ssize_t wrote = write(file, (char *)memory + done, FILL - done);
            must(wrote > 0);
            done += wrote;
        }
        for (size_t done = 0; done < FILL;) {
            ssize_t got = pread(file, (char *)memory + done, FILL - done, done);
            must(got > 0);
            done += got;
        }
        close(file);
        char byte;
        must(read(ends[0], &byte, 1) == -1 && errno == EINTR);
    }
    check(memory, FILL, 1, "after ticks");
    say("%s\n", ticks > 10 ? "ticked" : "DIFFERENCE: hardly a tick");
    return 0;
}

// Signals of the process that all its threads block wait for it: nobody else takes them.
static int waited_for(int argc, char **argv) {
    (void)argc, (void)argv;
    sigset_t all, seen;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, 0);
    uint64_t *memory = fill(FILL, 1);
    for (int signal = 1; signal < 32; signal++)
        if (signal != SIGKILL && signal != SIGSTOP)
            must(kill(getpid(), signal) == 0);
    check(memory, FILL, 1, "with signals pending");
    sigpending(&seen);
    for (int signal = 1; signal < 32; signal++)
        if (sigismember(&seen, signal))
            say("%d is pending\n", signal);
    int descriptor = signalfd(-1, &all, SFD_NONBLOCK);
    struct signalfd_siginfo info;
    while (read(descriptor, &info, sizeof info) == sizeof info)
        say("%d came from %s\n", info.ssi_signo, (pid_t)info.ssi_pid == getpid() ? "us" : "another");
    check(memory, FILL, 1, "with all signals read");
    return 0;
}

// A handler on a stack of its own, in memory that goes cold, called when the stack is full.
static char *alternate;
static void overflowed(int signal) {
    (void)signal;
    say("the stack is full\n");
    _exit(11);
}

static volatile int depth;
static int dig(volatile char *above) {
    volatile char here[4096];
    here[0] = above[0];
    return ++depth < 1 << 30 ? dig(here) + here[0] : depth;
}

static int stack_overflow(int argc, char **argv) {
    (void)argc, (void)argv;
    alternate = mmap(0, 256 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = alternate, .ss_size = 256 << 10};
    must(sigaltstack(&stack, 0) == 0);
    struct sigaction action = {.sa_handler = overflowed, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &action, 0);
    check(fill(FILL, 1), FILL, 1, "all");
    char here = 0;
    return dig(&here);
}

int main(int argc, char **argv) {
    static const struct life lives[] = {
        {"dispositions", dispositions},
        {"die", die},
        {"die-of", die_of},
        {"jump-out-of-faults", jump_out_of_faults},
        {"jump-out-of-calls", jump_out_of_calls},
        {"ticking", ticking},
        {"waited-for", waited_for},
        {"stack-overflow", stack_overflow},
        {0, 0},
    };
    return live(lives, argc, argv);
}

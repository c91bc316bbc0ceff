// Lives that begin in every way that there is, and those who leave their children behind.
#include "life.h"
#include <spawn.h>

extern char **environ;

// A child of a daemon's kind: its parent is gone, memory is as it was, and it can work with more.
static int go_on_alone(const uint64_t *memory, pid_t parent, const char *who) {
    wait_until_orphaned(parent);
    check(memory, FILL, 1, who);
    uint64_t *more = fill(8 * MIB, 2);
    check(more, 8 * MIB, 2, who);
    check(memory, FILL, 1, who);
    say("%s: intact, its parent is %d, it leads %s\n", who, getppid(), getsid(0) == getpid() ? "a session" : "none");
    return 0;
}

static int live_daemon(int argc, char **argv) {
    (void)argc, (void)argv;
    keep_out();
    uint64_t *memory = fill(FILL, 1);
    pid_t parent = getpid();
    must(daemon(0, 0) == 0);
    return go_on_alone(memory, parent, "daemon");
}

static int double_fork(int argc, char **argv) {
    (void)argc, (void)argv;
    uint64_t *memory = fill(FILL, 1);
    int said[2];
    must(pipe(said) == 0);
    pid_t child = fork();
    if (child == 0) {
        must(setsid() > 0);
        pid_t parent = getpid();
        if (fork())
            _exit(0);
        // The first has its say first.
        char none;
        close(said[1]);
        must(read(said[0], &none, 1) == 0);
        _exit(go_on_alone(memory, parent, "grandchild"));
    }
    const char *end = end_of(child);
    check(memory, FILL, 1, "first");
    say("first: %s\n", end);
    return 0;
}

// parent-exits MS STATUS: the parent goes so long after the fork.
static int parent_exits(int argc, char **argv) {
    must(argc == 3);
    uint64_t *memory = fill(FILL, 1);
    pid_t parent = getpid(), child = fork();
    must(child >= 0);
    if (child == 0)
        _exit(go_on_alone(memory, parent, "child"));
    if (atoi(argv[1]))
        nap(atoi(argv[1]));
    _exit(atoi(argv[2]));
}

// Each forks the next and is gone; the last tells.
static int generations(int argc, char **argv) {
    (void)argc, (void)argv;
    uint64_t *memory = fill(FILL, 1);
    for (int generation = 0; generation < 8; generation++) {
        pid_t parent = getpid(), child = fork();
        must(child >= 0);
        if (child)
            _exit(0);
        wait_until_orphaned(parent);
        for (size_t page = generation; page < FILL / 4096; page += 8)
            memory[page * WORDS + 7] = ~memory[page * WORDS + 7];
    }
    for (size_t page = 0; page < FILL / 4096; page++)
        memory[page * WORDS + 7] = ~memory[page * WORDS + 7];
    check(memory, FILL, 1, "last");
    say("last: intact, its parent is %d\n", getppid());
    return 0;
}

// Somebody is killed while it forks one child after the other. Whoever has begun to live is well.
static int killed_while_forking(int argc, char **argv) {
    (void)argc, (void)argv;
    int said[2], began = 0, well = 0;
    char byte;
    for (int round = 0; round < 8; round++) {
        must(pipe(said) == 0);
        pid_t forker = fork();
        must(forker >= 0);
        if (forker == 0) {
            uint64_t *memory = fill(FILL, 1);
            must(write(said[1], "!", 1) == 1);
            for (int alive = 0;; alive++) {
                // Not too many at a time: each wants a little memory of its own.
                for (; alive > round % 4; alive--)
                    wait(0);
                pid_t child = fork();
                if (child == 0) {
                    must(write(said[1], "b", 1) == 1);
                    check(memory, FILL, 1, "child");
                    must(write(said[1], "w", 1) == 1);
                    _exit(0);
                }
                must(child > 0);
            }
        }
        close(said[1]);
        must(read(said[0], &byte, 1) == 1);
        nap(3 + 7 * round);
        kill(forker, SIGKILL);
        must(!strcmp(end_of(forker), "signal 9"));
        while (read(said[0], &byte, 1) == 1)
            byte == 'b' ? began++ : well++;
        close(said[0]);
    }
    say("%s\n", began == well ? "all who began are well" : "some who began are not well");
    return 0;
}

// Orphans come to the nearest subreaper.
static int subreaper(int argc, char **argv) {
    (void)argc, (void)argv;
    must(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
    uint64_t *memory = fill(FILL, 1);
    pid_t reaper = getpid(), child = fork();
    if (child == 0) {
        pid_t parent = getpid();
        if (fork())
            _exit(4);
        wait_until_orphaned(parent);
        check(memory, FILL, 1, "orphan");
        _exit(getppid() == reaper ? 5 : WRONG);
    }
    say("child: %s\n", end_of(child));
    say("orphan: %s\n", end_of(-1));
    say("then: %s\n", end_of(-1));
    check(memory, FILL, 1, "reaper");
    return 0;
}

// As many as a server has, all at once, each with a part of its own.
static int brood(int argc, char **argv) {
    (void)argc, (void)argv;
    uint64_t *memory = fill(FILL, 1);
    pid_t children[12];
    for (int i = 0; i < 12; i++) {
        must((children[i] = fork()) >= 0);
        if (children[i] == 0) {
            size_t part = FILL / 12 / 4096 * 4096;
            uint64_t *mine = memory + i * part / 8;
            fill_at(mine, part, 3 + i);
            check(mine, part, 3 + i, "child");
            if (i)
                check(memory, part, 1, "child, of another");
            _exit(i);
        }
    }
    for (int i = 0; i < 12; i++)
        say("child %d: %s\n", i, end_of(children[i]));
    check(memory, FILL, 1, "parent");
    return 0;
}

// Orphans that end while we live, and whether somebody takes their bodies away.
static int zombies(void) {
    int found = 0;
    for (int pid = 2; pid < 4096; pid++) {
        char path[32], line[512] = "";
        sprintf(path, "/proc/%d/stat", pid);
        int file = open(path, O_RDONLY);
        if (file < 0)
            continue;
        ssize_t length = read(file, line, sizeof line - 1);
        close(file);
        char *state = length > 0 ? strrchr(line, ')') : 0;
        found += state && state[2] == 'Z';
    }
    return found;
}

// In a process namespace of its own only: it looks at all that there are.
static int orphans(int argc, char **argv) {
    (void)argc, (void)argv;
    uint64_t *memory = fill(FILL, 1);
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        if (child == 0) {
            if (fork() == 0)
                nap(20);
            _exit(i);
        }
        say("child %d: %s\n", i, end_of(child));
    }
    // Another may end right after the last look: what that found is said.
    int tries = 0, left;
    while (nap(10), (left = zombies()) && ++tries < 1000) {
    }
    say("%d zombies are left\n", left);
    check(memory, FILL, 1, "parent");
    return 6;
}

static int spawn(int argc, char **argv) {
    (void)argc, (void)argv;
    uint64_t *memory = fill(FILL, 1);
    for (int i = 0; i < 20; i++) {
        char *words[] = {"sh", "-c", "exit $0", (char[]){'0' + i % 10, 0}, 0};
        pid_t child;
        must(posix_spawnp(&child, "sh", 0, 0, words, environ) == 0);
        say("spawned: %s\n", end_of(child));
    }
    for (int i = 0; i < 20; i++) {
        pid_t child = vfork();
        if (child == 0) {
            if (i % 2)
                execlp("true", "true", (char *)0);
            _exit(30 + i);
        }
        say("vforked: %s\n", end_of(child));
    }
    check(memory, FILL, 1, "parent");
    say("system: %d\n", system("exit 3"));
    FILE *pipe = popen("echo from a pipe", "r");
    char line[64] = "";
    must(pipe && fgets(line, sizeof line, pipe));
    say("popen: %spclose: %d\n", line, pclose(pipe));
    check(memory, FILL, 1, "parent");
    return 0;
}

static uint64_t *shared_memory;
static pid_t maker;

// What runs on in the memory of a process that is gone may still read all of it.
static int outlive(void *unused) {
    (void)unused;
    while (getppid() == maker) {
        struct timespec short_while = {0, 1000000};
        syscall(SYS_nanosleep, &short_while, 0);
    }
    // Longer than a second, after which what the launcher keeps of a pager that is gone was dropped
    // once.
    struct timespec while_ = {1, 600000000};
    syscall(SYS_nanosleep, &while_, 0);
    const char *line = is_intact(shared_memory, FILL, 1) ? "survivor: intact\n" : "DIFFERENCE: survivor\n";
    syscall(SYS_write, out, line, strlen(line));
    syscall(SYS_exit_group, 0);
    return 0;
}

static int live_beside(void *unused) {
    (void)unused;
    int good = is_intact(shared_memory, FILL, 1);
    fill_at(shared_memory, FILL, 2);
    syscall(SYS_exit, good && is_intact(shared_memory, FILL, 2) ? 6 : WRONG);
    return 0;
}

static char stack[256 << 10] __attribute__((aligned(16)));

// clone-vm stay|go
static int clone_vm(int argc, char **argv) {
    must(argc == 2);
    shared_memory = fill(FILL, 1);
    maker = getpid();
    int stays = !strcmp(argv[1], "stay");
    pid_t child = clone(stays ? live_beside : outlive, stack + sizeof stack, CLONE_VM | SIGCHLD, 0);
    must(child > 0);
    if (!stays)
        _exit(3);
    say("beside: %s\n", end_of(child));
    check(shared_memory, FILL, 2, "maker");
    return 0;
}

// A vfork whose parent is killed: the child has the memory alone then.
static int vfork_killed(int argc, char **argv) {
    (void)argc, (void)argv;
    int ready[2];
    must(pipe(ready) == 0);
    pid_t parent = fork();
    must(parent >= 0);
    if (parent == 0) {
        shared_memory = fill(FILL, 1);
        maker = getpid();
        if (vfork() == 0) {
            must(write(ready[1], "!", 1) == 1);
            outlive(0);
        }
        _exit(WRONG);
    }
    close(ready[1]);
    char byte;
    must(read(ready[0], &byte, 1) == 1);
    kill(parent, SIGKILL);
    say("parent: %s\n", end_of(parent));
    while (read(ready[0], &byte, 1) == 1) {
    }
    return 0;
}

// Forks that libc knows nothing of.
static int raw_forks(int argc, char **argv) {
    (void)argc, (void)argv;
    uint64_t *memory = fill(FILL, 1);
    for (int i = 0; i < 8; i++) {
        long child = i % 2 ? syscall(SYS_fork) : syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        must(child >= 0);
        if (child == 0) {
            // Half of them change what they have at once, the others look first.
            if (i >= 6) {
                must(syscall(SYS_madvise, memory, FILL, MADV_DONTNEED) == 0);
                for (size_t word = 0; word < FILL / 8; word++)
                    if (memory[word])
                        _exit(WRONG);
                _exit(10 + i);
            }
            if (i >= 4) {
                int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
                void *there = mmap(0, FILL, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
                memory = (uint64_t *)syscall(SYS_mremap, memory, FILL, FILL, flags, there);
                must(memory == there);
            }
            if (!is_intact(memory, FILL, 1))
                _exit(WRONG);
            fill_at(memory, FILL / 4, 2);
            _exit(is_intact(memory, FILL / 4, 2) ? 10 + i : WRONG);
        }
        say("child %d: %s\n", i, end_of(child));
        check(memory, FILL, 1, "parent");
    }
    return 0;
}

// The same, in a chain: each child forks before anything else, and looks at its memory then.
static int raw_generations(int argc, char **argv) {
    (void)argc, (void)argv;
    uint64_t *memory = fill(FILL, 1);
    for (int i = 0; i < 6; i++) {
        long child;
        int depth = 0;
        while (depth < 4 && (child = syscall(SYS_fork)) == 0)
            depth++;
        if (depth > 0) {
            int is_well = is_intact(memory, FILL, 1);
            if (depth < 4)
                is_well &= strcmp(end_of(child), "exit 10") == 0;
            _exit(is_well ? 10 : WRONG);
        }
        say("chain %d: %s\n", i, end_of(child));
        check(memory, FILL, 1, "parent");
    }
    return 0;
}

// The process images that follow each other: exec-self N.
static int exec_self(int argc, char **argv) {
    must(argc == 2);
    int left = atoi(argv[1]);
    size_t size = left ? 6 * MIB : FILL;
    uint64_t *memory = fill(size, left);
    check(memory, size, left, "image");
    if (left == 0) {
        say("the last image: intact\n");
        return 8;
    }
    char rest[16];
    sprintf(rest, "%d", left - 1);
    execl("/proc/self/exe", "births", "exec-self", rest, (char *)0);
    return WRONG;
}

// A shell's work: a child that stops and goes on, and a process group that is ended.
static int job_control(int argc, char **argv) {
    (void)argc, (void)argv;
    uint64_t *memory = fill(FILL, 1);
    pid_t job = fork();
    must(job >= 0);
    if (job == 0) {
        must(setpgid(0, 0) == 0);
        signal(SIGTSTP, SIG_DFL);
        for (int i = 0; i < 3; i++) {
            raise(SIGTSTP);
            check(memory, FILL, 1, "job");
        }
        if (fork() == 0)
            for (;;)
                pause();
        for (;;)
            pause();
    }
    for (int i = 0; i < 3; i++) {
        int status;
        must(waitpid(job, &status, WUNTRACED) == job && WIFSTOPPED(status));
        say("stopped by %d\n", WSTOPSIG(status));
        check(memory, FILL, 1, "shell");
        must(kill(-job, SIGCONT) == 0);
        must(waitpid(job, &status, WCONTINUED) == job && WIFCONTINUED(status));
    }
    must(kill(-job, SIGTERM) == 0);
    say("job: %s\n", end_of(job));
    while (kill(-job, 0) == 0)
        nap(1);
    say("its group: %s\n", strerror(errno));
    return 0;
}

// Children that nobody waits for because their end is ignored.
static int children_ignored(int argc, char **argv) {
    (void)argc, (void)argv;
    signal(SIGCHLD, SIG_IGN);
    uint64_t *memory = fill(FILL, 1);
    int done[2];
    must(pipe(done) == 0);
    for (int i = 0; i < 6; i++)
        if (fork() == 0) {
            check(memory, FILL, 1, "child");
            must(write(done[1], "w", 1) == 1);
            _exit(0);
        }
    close(done[1]);
    char byte;
    int well = 0;
    while (read(done[0], &byte, 1) == 1)
        well++;
    say("%d are well, waiting says: %s\n", well, end_of(-1));
    return 0;
}

// no life of its own: fill and check as much as is said, and exit as is said: work MIB STATUS
static int work(int argc, char **argv) {
    must(argc == 3);
    size_t size = atoi(argv[1]) * MIB;
    check(fill(size, 5), size, 5, "worker");
    return atoi(argv[2]);
}

int main(int argc, char **argv) {
    static const struct life lives[] = {
        {"daemon", live_daemon},
        {"double-fork", double_fork},
        {"parent-exits", parent_exits},
        {"generations", generations},
        {"killed-while-forking", killed_while_forking},
        {"subreaper", subreaper},
        {"brood", brood},
        {"orphans", orphans},
        {"spawn", spawn},
        {"clone-vm", clone_vm},
        {"vfork-killed", vfork_killed},
        {"raw-forks", raw_forks},
        {"raw-generations", raw_generations},
        {"exec-self", exec_self},
        {"job-control", job_control},
        {"children-ignored", children_ignored},
        {"work", work},
        {0, 0},
    };
    return live(lives, argc, argv);
}

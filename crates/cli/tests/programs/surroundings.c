// What a process is given and may find different: limits, descriptors, arguments, users,
// directories.
#include "life.h"
#include <grp.h>
#include <termios.h>

extern char **environ;

static void fill_and_check(const char *who) {
    uint64_t *memory = fill(FILL, 1);
    check(memory, FILL, 1, who);
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        check(memory, FILL, 1, "child");
        _exit(0);
    }
    say("%s: intact, its child: %s\n", who, end_of(child));
    munmap(memory, FILL);
}

static const struct {
    const char *name;
    int resource;
} resources[] = {
    {"as", RLIMIT_AS},         {"data", RLIMIT_DATA},   {"fsize", RLIMIT_FSIZE}, {"nofile", RLIMIT_NOFILE},
    {"nproc", RLIMIT_NPROC},   {"stack", RLIMIT_STACK}, {"cpu", RLIMIT_CPU},     {"core", RLIMIT_CORE},
    {"memlock", RLIMIT_MEMLOCK}, {"rss", RLIMIT_RSS},   {"sigpending", RLIMIT_SIGPENDING},
};

// limit NAME VALUE: set by the program itself, once it has memory.
static int limit(int argc, char **argv) {
    must(argc == 3);
    uint64_t *memory = fill(FILL, 2);
    for (size_t i = 0; i < sizeof resources / sizeof *resources; i++)
        if (!strcmp(resources[i].name, argv[1])) {
            struct rlimit limit = {strtoull(argv[2], 0, 10), strtoull(argv[2], 0, 10)};
            must(setrlimit(resources[i].resource, &limit) == 0);
        }
    check(memory, FILL, 2, "after the limit");
    fill_and_check("under the limit");
    check(memory, FILL, 2, "at the end");
    return 0;
}

// What the limits are.
static int limits(int argc, char **argv) {
    (void)argc, (void)argv;
    fill_and_check("under the limits");
    for (size_t i = 0; i < sizeof resources / sizeof *resources; i++) {
        struct rlimit limit;
        must(getrlimit(resources[i].resource, &limit) == 0);
        say("%s: %llu of %llu\n", resources[i].name, (unsigned long long)limit.rlim_cur, (unsigned long long)limit.rlim_max);
    }
    return 0;
}

// How many descriptors there are to be had.
static int descriptors(int argc, char **argv) {
    (void)argc, (void)argv;
    struct rlimit limit = {40, 40};
    must(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    uint64_t *memory = fill(FILL, 1);
    int count = 0, last = 0, fd;
    while ((fd = open("/dev/null", O_RDONLY)) >= 0)
        count++, last = fd;
    say("%d descriptors, the last is %d, then: %s\n", count, last, strerror(errno));
    check(memory, FILL, 1, "without descriptors");
    for (fd = 3; fd <= last; fd++)
        close(fd);
    check(memory, FILL, 1, "with all closed");
    must(syscall(SYS_close_range, 3, ~0u, 0) == 0);
    check(memory, FILL, 1, "with all closed again");
    return 0;
}

static int file_size(int argc, char **argv) {
    (void)argc, (void)argv;
    struct rlimit limit = {MIB, MIB};
    signal(SIGXFSZ, SIG_IGN);
    must(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    fill_and_check("with short files");
    int file = open(".", O_TMPFILE | O_RDWR, 0600);
    uint64_t *memory = fill(2 * MIB, 3);
    must(file >= 0);
    say("wrote %zd\n", write(file, memory, 2 * MIB));
    int more = write(file, memory, 1);
    say("then %d: %s\n", more, strerror(errno));
    return 0;
}

static int processor_time(int argc, char **argv) {
    (void)argc, (void)argv;
    uint64_t *memory = fill(FILL, 1);
    struct rlimit limit = {1, 2};
    must(setrlimit(RLIMIT_CPU, &limit) == 0);
    for (;;)
        check(memory, FILL, 1, "before its time is over");
}

// fds FILE: which of the first three are there, told in a file: there may be nowhere else.
static int fds(int argc, char **argv) {
    must(argc == 2);
    int is_open[3];
    for (int fd = 0; fd < 3; fd++)
        is_open[fd] = fcntl(fd, F_GETFD) >= 0;
    // Three that stay open take the places of those that are closed.
    int first = open("/dev/null", O_RDWR), second = open("/dev/null", O_RDWR);
    uint64_t *memory = fill(FILL, 1);
    int file = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (file < 0)
        return 90;
    out = fcntl(file, F_DUPFD, 100);
    check(memory, FILL, 1, "all");
    say("%d%d%d, then %d, %d, %d\n", is_open[0], is_open[1], is_open[2], first, second, file);
    // What is written to the first three must reach nobody but /dev/null or whom they were.
    for (int fd = 0; fd < 3; fd++)
        if (is_open[fd] && fd)
            say("%zd ", write(fd, "x", 1));
    say("\n");
    return 17;
}

static uint64_t sum(uint64_t sum, const char *text) {
    for (; *text; text++)
        sum = (sum ^ (unsigned char)*text) * 0x100000001b3;
    return sum;
}

// What was given, told as sums.
static int given(int argc, char **argv) {
    fill_and_check("what was given");
    uint64_t words = 0, variables = 0;
    size_t length = 0;
    int count = 0;
    for (int i = 0; i < argc; i++)
        words = sum(words, argv[i]), length += strlen(argv[i]);
    for (char **entry = environ; *entry; entry++)
        if (strncmp(*entry, "LD_PRELOAD=", 11) && strncmp(*entry, "UZSWAP", 6))
            variables = variables + sum(1, *entry), count++;
    say("%d words of %zu bytes: %#lx; %d variables: %#lx\n", argc, length, (long)words, count, (long)variables);
    return 0;
}

static int who(int argc, char **argv) {
    (void)argc, (void)argv;
    uid_t r, e, s;
    getresuid(&r, &e, &s);
    say("uid %d %d %d, gid %d, %d groups, umask %03o, nice %d\n", r, e, s, getgid(), getgroups(0, 0), umask(0), getpriority(PRIO_PROCESS, 0));
    char directory[4096];
    say("in %s\n", getcwd(directory, sizeof directory) ? "some directory" : strerror(errno));
    fill_and_check("whoever it is");
    return 0;
}

// Becomes somebody else for good, as servers do, and goes on.
static int drop(int argc, char **argv) {
    (void)argc, (void)argv;
    uint64_t *memory = fill(FILL, 1);
    must(setgroups(0, 0) == 0 && setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
    say("root again: %s\n", setuid(0) ? strerror(errno) : "yes");
    check(memory, FILL, 1, "somebody else");
    uint64_t *more = fill(8 * MIB, 2);
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        check(memory, FILL, 1, "child of somebody else");
        check(more, 8 * MIB, 2, "child of somebody else");
        _exit(3);
    }
    say("child: %s\n", end_of(child));
    check(memory, FILL, 1, "somebody else");
    return 0;
}

// new-root DIRECTORY: goes there, and goes on.
static int new_root(int argc, char **argv) {
    must(argc == 2);
    uint64_t *memory = fill(FILL, 1);
    must(chroot(argv[1]) == 0 && chdir("/") == 0);
    check(memory, FILL, 1, "in another root");
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        check(memory, FILL, 1, "child in another root");
        _exit(3);
    }
    say("child: %s\n", end_of(child));
    check(memory, FILL, 1, "in another root");
    return 0;
}

// A file that all of this program's pages go through, and back.
static int copy_through(int argc, char **argv) {
    (void)argc, (void)argv;
    uint64_t *memory = fill(FILL, 1);
    for (size_t done = 0; done < FILL;) {
        ssize_t wrote = write(1, (char *)memory + done, FILL - done);
        must(wrote > 0);
        done += wrote;
    }
    return 0;
}

static int read_in(int argc, char **argv) {
    (void)argc, (void)argv;
    char *memory = mmap(0, FILL + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t done = 0;
    for (ssize_t got; (got = read(0, memory + done, FILL + 4096 - done)) > 0; done += got) {
    }
    say("%zu bytes, %s\n", done, done == FILL && is_intact((void *)memory, FILL, 1) ? "intact" : "not what was sent");
    return 0;
}

// At a terminal: says so, and waits to be interrupted.
static int terminal(int argc, char **argv) {
    (void)argc, (void)argv;
    uint64_t *memory = fill(FILL, 1);
    say("terminals %d%d%d, foreground %d\n", isatty(0), isatty(1), isatty(2), tcgetpgrp(0) == getpgrp());
    for (int i = 0; i < 3; i++) {
        char line[64];
        ssize_t got = read(0, line, sizeof line);
        check(memory, FILL, 1, "at the terminal");
        if (got > 0)
            say("heard %.*s", (int)got, line);
    }
    say("ready\n");
    pause();
    return WRONG;
}

int main(int argc, char **argv) {
    static const struct life lives[] = {
        {"limit", limit},
        {"limits", limits},
        {"descriptors", descriptors},
        {"file-size", file_size},
        {"processor-time", processor_time},
        {"fds", fds},
        {"given", given},
        {"who", who},
        {"drop", drop},
        {"new-root", new_root},
        {"copy-through", copy_through},
        {"read-in", read_in},
        {"terminal", terminal},
        {0, 0},
    };
    return live(lives, argc, argv);
}

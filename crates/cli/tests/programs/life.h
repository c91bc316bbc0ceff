// What the programs of the lives suite share: memory that is filled and verified, words on the
// first standard output, and waiting for what happens to others.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Each program uses a part of this.
#pragma GCC diagnostic ignored "-Wunused-function"

#define MIB ((size_t)1 << 20)
#define WORDS 512
// More than the limit of a life, so that pages really leave.
#define FILL (24 * MIB)
// The status of a program that found what it should not.
#define WRONG 99

// Where the words go: a copy of the first standard output, which survives daemon(3).
static int out = 1;

static void say(const char *format, ...) {
    char line[512];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (write(out, line, length) != length)
        _exit(WRONG);
}

#define must(call) \
    do { \
        if (!(call)) { \
            say("line %d: %s: %s\n", __LINE__, #call, strerror(errno)); \
            _exit(WRONG); \
        } \
    } while (0)

static void keep_out(void) {
    must((out = fcntl(1, F_DUPFD, 100)) >= 0);
}

// One word in eight is noise, so that pages differ and compress.
static uint64_t word(uint64_t seed, uint64_t page, uint64_t at) {
    if (at % 8)
        return seed << 32 | (page + at);
    uint64_t x = seed * 0x9e3779b97f4a7c15u + page * WORDS + at + 1;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static void fill_at(uint64_t *memory, size_t size, uint64_t seed) {
    for (size_t page = 0; page < size / 4096; page++)
        for (size_t at = 0; at < WORDS; at++)
            memory[page * WORDS + at] = word(seed, page, at);
}

static uint64_t *fill(size_t size, uint64_t seed) {
    uint64_t *memory = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(memory != MAP_FAILED);
    fill_at(memory, size, seed);
    return memory;
}

// Reading is all it does: it may be called where nothing else may.
static int is_intact(const uint64_t *memory, size_t size, uint64_t seed) {
    for (size_t page = 0; page < size / 4096; page++)
        for (size_t at = 0; at < WORDS; at++)
            if (memory[page * WORDS + at] != word(seed, page, at))
                return 0;
    return 1;
}

static void check(const uint64_t *memory, size_t size, uint64_t seed, const char *who) {
    for (size_t page = 0; page < size / 4096; page++)
        for (size_t at = 0; at < WORDS; at++)
            if (memory[page * WORDS + at] != word(seed, page, at)) {
                say("DIFFERENCE: %s: page %zu, word %zu is %#lx\n", who, page, at, (long)memory[page * WORDS + at]);
                _exit(WRONG);
            }
}

static void nap(long ms) {
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) && errno == EINTR) {
    }
}

// Returns once `parent` is gone and we belong to somebody else.
static void wait_until_orphaned(pid_t parent) {
    while (getppid() == parent)
        nap(1);
}

// "exit 3", "signal 9": how a child ended.
static const char *end_of(pid_t pid) {
    static char text[64];
    int status;
    pid_t reaped;
    while ((reaped = waitpid(pid, &status, 0)) < 0 && errno == EINTR) {
    }
    if (reaped < 0)
        return strerror(errno);
    if (WIFEXITED(status))
        sprintf(text, "exit %d", WEXITSTATUS(status));
    else
        sprintf(text, "signal %d", WTERMSIG(status));
    return text;
}

// A life of this program: what its first argument names.
struct life {
    const char *name;
    int (*live)(int argc, char **argv);
};

static int live(const struct life *lives, int argc, char **argv) {
    for (; argc > 1 && lives->name; lives++)
        if (!strcmp(lives->name, argv[1]))
            return lives->live(argc - 1, argv + 1);
    fprintf(stderr, "%s: no such life\n", argv[0]);
    return WRONG;
}

/* Address space as few programs use it. mappings WHAT N: says `right` if every page held what was written to it. */
#include "pages.h"
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define PIECE (64ul << 10)

/* Two pages of each piece, as a number. */
static void mark(char *p, uint64_t i) {
    *(uint64_t *)p = i * 3 + 1;
    *(uint64_t *)(p + PIECE - PAGE) = i * 5 + 1;
}

static void is_marked(const char *p, uint64_t i) {
    must(*(const uint64_t *)p == i * 3 + 1);
    must(*(const uint64_t *)(p + PIECE - PAGE) == i * 5 + 1);
}

/* N mappings that stay so many, for the kernel too. */
static void apart(size_t n) {
    char **at = calloc(n, sizeof *at);
    for (size_t i = 0; i < n; i++) {
        at[i] = map(PIECE);
        if (i & 1)
            must(madvise(at[i], PIECE, i & 2 ? MADV_SEQUENTIAL : MADV_RANDOM) == 0);
        mark(at[i], i);
    }
    for (size_t i = 0; i < n; i++)
        is_marked(at[i], i);
    for (size_t i = 0; i < n; i++)
        must(munmap(at[i], PIECE) == 0);
}

/* N mappings side by side, which the kernel makes one of: more than a process may have of those that stay apart. */
static void joined(size_t n) {
    char **at = calloc(n, sizeof *at);
    for (size_t i = 0; i < n; i++)
        mark(at[i] = map(PIECE), i);
    for (size_t i = 0; i < n; i++)
        is_marked(at[i], i);
}

/* A mapping with N holes, then N pieces with a protection of their own, gone piece by piece. */
static void storm(size_t n) {
    char *p = map(2 * n * PIECE);
    for (size_t i = 0; i < 2 * n; i++)
        mark(p + i * PIECE, i);
    for (size_t i = 0; i < n; i++)
        must(munmap(p + (2 * i + 1) * PIECE, PIECE) == 0);
    for (size_t i = 0; i < n; i++)
        must(mprotect(p + 2 * i * PIECE, PIECE, i & 1 ? PROT_NONE : PROT_READ) == 0);
    for (size_t i = 0; i < n; i++) {
        must(mprotect(p + 2 * i * PIECE, PIECE, PROT_READ | PROT_WRITE) == 0);
        is_marked(p + 2 * i * PIECE, 2 * i);
        must(munmap(p + 2 * i * PIECE, PIECE) == 0);
    }
}

/* A mapping that grows N times, beside one that it has to jump over. */
static void grow(size_t n) {
    char *p = map(PIECE);
    mark(p, 0);
    for (size_t i = 1; i < n; i++) {
        if (i % 64 == 0)
            map(PAGE);
        p = mremap(p, i * PIECE, (i + 1) * PIECE, MREMAP_MAYMOVE);
        must(p != MAP_FAILED);
        mark(p + i * PIECE, i);
    }
    for (size_t i = 0; i < n; i++)
        is_marked(p + i * PIECE, i);
}

static void *live(void *seed) {
    uint64_t own[512];
    for (size_t i = 0; i < 512; i++)
        own[i] = (uint64_t)seed + i;
    for (size_t i = 0; i < 512; i++)
        must(((volatile uint64_t *)own)[i] == (uint64_t)seed + i);
    return seed;
}

/* N threads, of which 500 live at a time. */
static void threads(size_t n) {
    pthread_t all[500];
    char *p = map(32 * MIB);
    fill(p, 32 * MIB, 7);
    for (size_t made = 0; made < n;) {
        size_t now = 0;
        for (; now < 500 && made < n; now++, made++)
            must(pthread_create(&all[now], NULL, live, (void *)made) == 0);
        for (size_t i = 0; i < now; i++)
            must(pthread_join(all[i], NULL) == 0);
    }
    check(p, 32 * MIB, 7, "the heap");
}

/* As Go and the sanitizers do: 16 TiB without access, in it N pieces that are made usable when they are wanted; and N pages
   spread over a mapping of a tebibyte. */
static void reserve(size_t n) {
    size_t len = 1ul << 44, step = len / n & ~(PIECE - 1);
    char *p = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    must(p != MAP_FAILED);
    for (size_t i = 0; i < n; i++) {
        must(mprotect(p + i * step, PIECE, PROT_READ | PROT_WRITE) == 0);
        mark(p + i * step, i);
    }
    size_t wide = 1ul << 40, every = wide / n & ~(PAGE - 1);
    char *q = mmap(NULL, wide, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    must(q != MAP_FAILED);
    for (size_t i = 0; i < n; i++)
        *(uint64_t *)(q + i * every) = i + 1;
    for (size_t i = 0; i < n; i++) {
        is_marked(p + i * step, i);
        must(*(uint64_t *)(q + i * every) == i + 1);
    }
    must(munmap(p, len) == 0 && munmap(q, wide) == 0);
}

/* As V8 does: N chunks of 256 KiB at random addresses. */
static void chunks(size_t n) {
    const size_t len = 256ul << 10;
    char **at = calloc(n, sizeof *at);
    uint64_t x = 88172645463325252ull;
    for (size_t i = 0; i < n;) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        void *hint = (void *)((x & ((1ul << 46) - 1)) & ~(len - 1));
        void *p = mmap(hint, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (p == MAP_FAILED)
            continue;
        fill(at[i++] = p, len, i);
    }
    for (size_t i = 0; i < n; i++)
        check(at[i], len, i + 1, "a chunk");
}

/* N small mappings, each with a guard behind it, as allocators that look for overruns map them, and coroutines their
   stacks. */
static void fence(size_t n, int is_raw) {
    const size_t len = 32ul << 10;
    char **at = calloc(n, sizeof *at), *large = map(16 * MIB);
    fill(large, 16 * MIB, n);
    for (size_t i = 0; i < n; i++) {
        at[i] = is_raw ? (char *)syscall(SYS_mmap, NULL, len + PAGE, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                       : map(len + PAGE);
        must(at[i] != MAP_FAILED && mprotect(at[i] + len, PAGE, PROT_NONE) == 0);
        fill(at[i], len, i);
    }
    for (size_t i = 0; i < n; i++)
        check(at[i], len, i, "a small mapping");
    check(large, 16 * MIB, n, "a large one");
}

static void fenced(size_t n) { fence(n, 0); }

static void fenced_unseen(size_t n) { fence(n, 1); }

static int is_over;

static void *map_apart(void *n) {
    while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED))
        apart((size_t)n);
    return NULL;
}

/* Forks, while threads map N pieces each that stay so many. */
static void forked(size_t n) {
    pthread_t all[3];
    char *p = map(24 * MIB);
    fill(p, 24 * MIB, 7);
    for (size_t i = 0; i < 3; i++)
        must(pthread_create(&all[i], NULL, map_apart, (void *)n) == 0);
    for (size_t i = 0; i < 40; i++) {
        pid_t child = fork();
        must(child >= 0);
        if (child == 0) {
            check(p, 24 * MIB, 7, "a child's");
            _exit(0);
        }
        int status;
        must(waitpid(child, &status, 0) == child && status == 0);
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
    for (size_t i = 0; i < 3; i++)
        must(pthread_join(all[i], NULL) == 0);
}

/* N pages, one behind the other. */
static void dense(size_t n) {
    uint64_t *p = map(n * PAGE);
    for (size_t i = 0; i < n; i++)
        p[i * 512] = i + 1, p[i * 512 + 7] = i * 0x9e3779b97f4a7c15ull;
    for (size_t i = 0; i < n; i++)
        must(p[i * 512] == i + 1 && p[i * 512 + 7] == i * 0x9e3779b97f4a7c15ull);
}

int main(int argc, char **argv) {
    static const struct { const char *name; void (*run)(size_t); } all[] = {
        {"apart", apart}, {"joined", joined}, {"storm", storm}, {"grow", grow}, {"threads", threads}, {"reserve", reserve},
        {"chunks", chunks}, {"dense", dense}, {"forked", forked}, {"fenced", fenced}, {"fenced-unseen", fenced_unseen},
    };
    must(argc == 3);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i].name, argv[1])) {
            all[i].run(strtoul(argv[2], NULL, 10));
            puts("right");
            return 0;
        }
    return 2;
}

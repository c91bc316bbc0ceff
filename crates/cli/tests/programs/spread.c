/* Pages as programs spread them over the address space. spread SHAPE PAGES FILE: says its process, and `right` if every
 * page holds what was written to it once FILE exists. */
#include "pages.h"

#define TIB (1ul << 40)
#define CHUNK (64 * PAGE)

static char **pages;

/* A page that compresses well, and is like no other. */
static void mark(char *p, uint64_t i) {
    uint64_t *words = (uint64_t *)p;
    words[0] = i + 1, words[200] = i * 3 + 1, words[511] = ~i;
}

static void is_marked(const char *p, uint64_t i) {
    const uint64_t *words = (const uint64_t *)p;
    must(words[0] == i + 1 && words[200] == i * 3 + 1 && words[511] == ~i && words[100] == 0);
}

/* One mapping of a tebibyte, touched here and there. */
static void sparse(size_t n) {
    char *p = mmap(0, TIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    must(p != MAP_FAILED);
    for (size_t i = 0; i < n; i++)
        pages[i] = p + TIB / PAGE / n * i * PAGE;
}

/* Chunks of 256 KiB wherever a random number says, as V8 maps them. */
static void chunks(size_t n) {
    uint64_t random = 88172645463325252;
    char *p = 0;
    for (size_t i = 0; i < n; i++) {
        if (i % 64 == 0) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            p = mmap((void *)(random % (1ul << 46) / CHUNK * CHUNK), CHUNK, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            must(p != MAP_FAILED);
        }
        pages[i] = p + i % 64 * PAGE;
    }
}

static void dense(size_t n) {
    char *p = map(n * PAGE);
    for (size_t i = 0; i < n; i++)
        pages[i] = p + i * PAGE;
}

int main(int argc, char **argv) {
    must(argc == 4);
    size_t n = strtoul(argv[2], 0, 10);
    pages = map(n * sizeof *pages);
    if (!strcmp(argv[1], "sparse"))
        sparse(n);
    else if (!strcmp(argv[1], "chunks"))
        chunks(n);
    else if (!strcmp(argv[1], "dense"))
        dense(n);
    for (size_t i = 0; i < n; i++)
        mark(pages[i], i);
    printf("%d\n", getpid());
    fflush(stdout);
    while (access(argv[3], F_OK) != 0)
        usleep(10000);
    for (size_t i = 0; i < n; i++)
        is_marked(pages[i], i);
    puts("right");
}

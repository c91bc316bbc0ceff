/* Pages as programs spread them over the address space. spread SHAPE PAGES [FILE]: says `right` if every page held what
 * was written to it, after FILE exists. */
#include "pages.h"

#define TIB (1ul << 40)
#define CHUNK (64 * PAGE)

static char **pages;

/* Whose lines compress, and are of this page alone. */
static void mark(char *p, uint64_t i) {
    for (size_t at = 0; at < PAGE / 8; at++)
        ((uint64_t *)p)[at] = i << 16 | at;
}

static void is_marked(const char *p, uint64_t i) {
    for (size_t at = 0; at < PAGE / 8; at++)
        must(((const uint64_t *)p)[at] == (i << 16 | at));
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
    must(argc >= 3);
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
    puts("written");
    fflush(stdout);
    while (argc > 3 && access(argv[3], F_OK) != 0)
        usleep(10000);
    for (size_t i = 0; i < n; i++)
        is_marked(pages[i], i);
    puts("right");
}

/* Memory with contents that can be told apart: every word says which page of which filling it belongs to. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096ul
#define MIB (1ul << 20)

/* Half of a page is noise, so it compresses to about half of its size. */
static inline uint64_t word_of(uint64_t seed, uint64_t page, uint64_t i) {
    uint64_t x = seed * 0x9e3779b97f4a7c15ull + page * 512 + i;
    if (i % 2)
        return seed << 32 | page;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

static inline void fill(void *p, size_t len, uint64_t seed) {
    for (size_t page = 0; page < len / PAGE; page++)
        for (size_t i = 0; i < 512; i++)
            ((uint64_t *)p)[page * 512 + i] = word_of(seed, page, i);
}

static inline void check(const void *p, size_t len, uint64_t seed, const char *what) {
    for (size_t page = 0; page < len / PAGE; page++)
        for (size_t i = 0; i < 512; i++)
            if (((const uint64_t *)p)[page * 512 + i] != word_of(seed, page, i)) {
                printf("%s: page %zu word %zu is %lx, not %lx\n", what, page, i,
                       ((const uint64_t *)p)[page * 512 + i], word_of(seed, page, i));
                fflush(stdout);
                _exit(3);
            }
}

static inline void check_zeros(const void *p, size_t len, const char *what) {
    for (size_t i = 0; i < len / 8; i++)
        if (((const uint64_t *)p)[i] != 0) {
            printf("%s: word %zu is not zero\n", what, i);
            fflush(stdout);
            _exit(3);
        }
}

#define must(what) do { if (!(what)) { printf("line %d: %s: %s\n", __LINE__, #what, strerror(errno)); fflush(stdout); _exit(4); } } while (0)

static inline void *map(size_t len) {
    void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(p != MAP_FAILED);
    return p;
}

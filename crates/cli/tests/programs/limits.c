/* A limit set by the program, after its memory was written, or, with "-", before it was started. What it says about its size is what an unmanaged run says. */
#include "pages.h"
#include <sys/resource.h>

#define MEMORY (64 * MIB)
#define LIMIT (160 * MIB)

static void *attempt(const char *what, size_t len) {
    void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    printf("%s: %s\n", what, p == MAP_FAILED ? strerror(errno) : "mapped");
    return p == MAP_FAILED ? NULL : p;
}

int main(int argc, char **argv) {
    void *memory = map(MEMORY);
    fill(memory, MEMORY, 1);
    if (argc < 2) {
        struct rlimit limit = {LIMIT, LIMIT};
        must(setrlimit(RLIMIT_DATA, &limit) == 0);
    }
    void *more = attempt("what fits", 64 * MIB);
    if (more)
        fill(more, 64 * MIB, 2);
    attempt("what does not", 64 * MIB);
    check(memory, MEMORY, 1, "memory");
    if (more)
        check(more, 64 * MIB, 2, "more memory");
    must(malloc(1000) != NULL);
    return 0;
}

/* A filter that all threads get ends whoever calls capget: none does that the program has not called. */
#include "pages.h"
#include "filter.h"

#define LEN (24 * MIB)

/* Faults follow each other closely. */
static void touch(const char *p) {
    uint64_t page = 1;
    for (int i = 0; i < 30000; i++) {
        page = (page * 6364136223846793005ul + 1442695040888963407ul) % (1ul << 62);
        size_t at = page >> 20 & (LEN / PAGE / 2 - 1);
        must(((const uint64_t *)p)[at * 512 + 1] == word_of(1, at, 1));
    }
}

int main(void) {
    char *p = map(LEN);
    fill(p, LEN, 1);
    touch(p);
    filter(SYS_capget, SECCOMP_RET_KILL_PROCESS);
    touch(p);
    puts("right");
    return 0;
}

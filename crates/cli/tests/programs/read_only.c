/* Memory that is read-only, or not to be touched at all, beyond the limit: filled in pieces, each made so once it is filled. */
#include "pages.h"
#include <pthread.h>
#include <sys/wait.h>

#define LEN (32 * MIB)
#define PIECE (4 * MIB)

static void fill_and_protect(char *p, int prot) {
    for (size_t at = 0; at < LEN; at += PIECE) {
        fill(p + at, PIECE, at + 1);
        must(mprotect(p + at, PIECE, prot) == 0);
    }
}

static void check_all(const char *p, const char *what) {
    for (size_t at = 0; at < LEN; at += PIECE)
        check(p + at, PIECE, at + 1, what);
}

int main(int argc, char **argv) {
    int prot = argc > 1 ? atoi(argv[1]) : PROT_READ;
    char *p = map(LEN);
    fill_and_protect(p, prot);
    if (prot == PROT_NONE) {
        /* As an arena that is parked: and back again. */
        char *other = map(LEN);
        fill(other, LEN, 7);
        check(other, LEN, 7, "other");
        must(munmap(other, LEN) == 0);
        must(mprotect(p, LEN, PROT_READ) == 0);
    }
    check_all(p, "read-only");
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        check_all(p, "the child's");
        must(mprotect(p, LEN, PROT_READ | PROT_WRITE) == 0);
        fill(p, LEN, 99);
        check(p, LEN, 99, "written by the child");
        _exit(0);
    }
    int status;
    must(waitpid(child, &status, 0) == child);
    must(status == 0);
    check_all(p, "the parent's");
    must(mprotect(p, LEN, PROT_READ | PROT_WRITE) == 0);
    check_all(p, "writable again");
    fill(p, LEN, 5);
    must(mprotect(p, LEN, prot) == 0);
    if (prot == PROT_NONE)
        must(mprotect(p, LEN, PROT_READ) == 0);
    check(p, LEN, 5, "the second phase");
    puts("right");
    return 0;
}

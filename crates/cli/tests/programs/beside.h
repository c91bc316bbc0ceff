/* Threads that read, map and fork until it is over, beside one that does what is tested. */
#include "pages.h"
#include <pthread.h>
#include <sys/wait.h>

static volatile int is_over;
static char *kept;
static const size_t len = 24 * MIB;

static void *reads(void *unused) {
    while (!is_over)
        check(kept, len, 1, "a reader");
    return unused;
}

static void *maps(void *unused) {
    while (!is_over) {
        char *p = map(MIB);
        fill(p, MIB, 3);
        p = mremap(p, MIB, 2 * MIB, MREMAP_MAYMOVE);
        must(p != MAP_FAILED);
        check(p, MIB, 3, "moved");
        munmap(p, 2 * MIB);
    }
    return unused;
}

static void in_child(const char *what) {
    pid_t pid = fork();
    must(pid >= 0);
    if (pid == 0) {
        check(kept, 4 * MIB, 1, what);
        _exit(7);
    }
    int status;
    must(waitpid(pid, &status, 0) == pid);
    if (status != 7 << 8) {
        printf("%s ended with %x\n", what, status);
        fflush(stdout);
        _exit(5);
    }
}

static void *forks(void *unused) {
    while (!is_over)
        in_child("a child");
    return unused;
}

/* RLIMIT_FSIZE, set by the program before or after its memory has begun to leave: the swap file is not its business. */
#include "pages.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

static volatile sig_atomic_t signals;

static void count(int sig) { signals += sig == SIGXFSZ; }

static void limit(size_t bytes) {
    struct rlimit limit = {bytes, bytes};
    must(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

int main(int argc, char **argv) {
    size_t len = atoi(argv[1]) * MIB;
    must(signal(SIGXFSZ, count) != SIG_ERR);
    if (argc > 2) {
        /* The swap file is made under the limit. */
        limit(atoi(argv[2]) * MIB);
        char *args[] = {argv[0], argv[1], NULL};
        must(execv("/proc/self/exe", args) == 0);
    }
    char *p = map(len);
    fill(p, len / 2, 1);
    struct rlimit before;
    must(getrlimit(RLIMIT_FSIZE, &before) == 0);
    if (before.rlim_cur == RLIM_INFINITY)
        limit(8 * PAGE);
    fill(p + len / 2, len / 2, 2);
    for (int i = 0; i < 2; i++) {
        check(p, len / 2, 1, "before the limit");
        check(p + len / 2, len / 2, 2, "after the limit");
    }
    must(signals == 0);
    /* The program's own files have the limit still. */
    char name[] = "/tmp/uzswap-test-XXXXXX";
    int fd = mkstemp(name);
    must(fd >= 0 && unlink(name) == 0);
    must(getrlimit(RLIMIT_FSIZE, &before) == 0);
    must(pwrite(fd, "x", 1, before.rlim_cur) == -1 && errno == EFBIG);
    must(signals == 1);
    puts("right");
    return 0;
}

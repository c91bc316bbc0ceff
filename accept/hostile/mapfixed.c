// A part of a mapping is mapped anew; at once, a forked child moves the whole: for the kernel it is one mapping.
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/wait.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <errno.h>
int main() {
    size_t S = 8 << 20;
    int bad = 0;
    // Big enough to be managed.
    char *big = mmap(0, 32 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(big, 1, 32 << 20);
    usleep(100000);
    for (int i = 0; i < 20; i++) {
        char *p = mmap(0, S, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(p, 2, S);
        usleep(i % 2 ? 50000 : 0);
        char *m = mmap(p + (2 << 20), 1 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (m == MAP_FAILED)
            perror("fixed");
        if (i & 2)
            memset(m, 3, 1 << 20);
        pid_t c = fork();
        if (!c) {
            char *q = mremap(p, S, S * 2, MREMAP_MAYMOVE);
            if (q == MAP_FAILED) {
                printf("%d: child mremap: %s\n", i, strerror(errno));
                _exit(1);
            }
            _exit(0);
        }
        int st;
        waitpid(c, &st, 0);
        bad += st != 0;
        munmap(p, S);
    }
    printf("bad %d\n", bad);
    return 0;
}

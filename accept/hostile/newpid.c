// unshare(CLONE_NEWPID), then fork: what `unshare -p -f`, sandboxes and container tools do.
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    size_t size = 16 << 20;
    char *m = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(m, 1, size);
    sleep(1);
    if (unshare(CLONE_NEWPID)) {
        perror("unshare");
        return 1;
    }
    pid_t child = fork();
    if (!child) {
        for (size_t i = 0; i < size; i += 4096)
            if (m[i] != 1)
                _exit(1);
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    printf("fork %d status %x\n", child > 0, status);
    return 0;
}

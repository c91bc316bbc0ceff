// A low RLIMIT_NOFILE (as servers set it before they fork workers), then fork.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    size_t size = 16 << 20;
    char *m = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(m, 1, size);
    sleep(1);
    struct rlimit limit = {8, 8};
    if (setrlimit(RLIMIT_NOFILE, &limit)) {
        perror("setrlimit");
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
    if (child < 0)
        perror("fork");
    else
        waitpid(child, &status, 0);
    printf("status %x\n", status);
    return 0;
}

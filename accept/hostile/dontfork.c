// Many mappings, some of them MADV_DONTFORK in part or whole; forks. The child checks what it has.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/wait.h>
enum { N = 32 };
int main(void) {
    size_t size = 1 << 20;
    char *m[N];
    for (int i = 0; i < N; i++) {
        m[i] = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (i % 3 == 1)
            madvise(m[i], size, MADV_DONTFORK);
        if (i % 3 == 2)
            madvise(m[i] + size / 4, size / 2, MADV_DONTFORK);
        memset(m[i], i + 1, size);
    }
    sleep(1);
    int status;
    for (int k = 0; k < 10; k++) {
        pid_t pid = fork();
        if (!pid) {
            for (int i = 0; i < N; i += 3)
                for (size_t j = 0; j < size; j += 4096)
                    if (m[i][j] != i + 1)
                        _exit(2);
            _exit(0);
        }
        waitpid(pid, &status, 0);
        printf("%x ", status);
        munmap(m[k], size);
        m[k] = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(m[k], k + 1, size);
    }
    puts("");
    for (int i = 0; i < N; i++)
        for (size_t j = 0; j < size; j += 4096)
            if (m[i][j] != i + 1)
                return 3;
    return 0;
}

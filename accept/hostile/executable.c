// Memory that becomes executable after it was swapped out, as compilers at run time make it; then a fork.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    size_t size = 64 << 20;
    char *m = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < size; i += 4096)
        memset(m + i, 1 + (i >> 12) % 100, 4096);
    sleep(1);
    if (mprotect(m, size, PROT_READ | PROT_EXEC))
        perror("mprotect");
    pid_t child = fork();
    int wrong = 0, status = -1;
    for (size_t i = 0; i < size; i += 4096)
        wrong += m[i] != (char)(1 + (i >> 12) % 100);
    if (!child)
        _exit(wrong != 0);
    waitpid(child, &status, 0);
    printf("wrong %d, in the child %x\n", wrong, status);
    return 0;
}

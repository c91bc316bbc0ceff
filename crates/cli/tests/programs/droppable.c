/* MAP_DROPPABLE (Linux 6.11): a forked child has zeros there, whatever was out. */
#include "pages.h"
#include <sys/wait.h>

int main(void) {
    char *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, 0x08 | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        puts("right");
        return 0;
    }
    memset(p, 7, MIB);
    char *q = map(60 * MIB);
    fill(q, 60 * MIB, 1);
    pid_t pid = fork();
    must(pid >= 0);
    if (pid == 0) {
        check_zeros(p, MIB, "in a child");
        _exit(0);
    }
    int status;
    must(waitpid(pid, &status, 0) == pid && status == 0);
    puts("right");
    return 0;
}

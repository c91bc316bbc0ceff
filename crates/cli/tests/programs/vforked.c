/* A vfork child forks: that child has its memory, changes it, and does what a pager is asked for. */
#include "pages.h"
#include <sys/wait.h>

#define MEMORY (16 * MIB)

static int live(const unsigned char *memory) {
    check(memory, MEMORY, 1, "inherited");
    must(setuid(getuid()) == 0);
    unsigned char *more = map(MEMORY);
    fill(more, MEMORY, 2);
    check(more, MEMORY, 2, "its own");
    must(munmap(more, MEMORY) == 0);
    pid_t child = fork();
    if (child == 0) {
        check(memory, MEMORY, 1, "inherited again");
        must(setuid(getuid()) == 0);
        _exit(5);
    }
    int status;
    must(waitpid(child, &status, 0) == child && status == 5 << 8);
    return 6;
}

int main(void) {
    unsigned char *memory = map(MEMORY);
    fill(memory, MEMORY, 1);
    int status;
    pid_t child = vfork();
    if (child == 0) {
        pid_t grandchild = fork();
        if (grandchild == 0)
            _exit(live(memory));
        must(waitpid(grandchild, &status, 0) == grandchild);
        _exit(status == 6 << 8 ? 7 : 8);
    }
    must(waitpid(child, &status, 0) == child && status == 7 << 8);
    check(memory, MEMORY, 1, "first");
    puts("whole");
    return 0;
}

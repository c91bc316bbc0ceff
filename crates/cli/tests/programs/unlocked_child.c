/* Locks are not inherited: what a child has of its parent's locked memory leaves, and what it maps. */
#include "pages.h"
#include <sys/resource.h>
#include <sys/wait.h>

static void grow(char *inherited, size_t len) {
    char *p = map(48 * MIB);
    for (int round = 0; round < 2; round++) {
        fill(p, 48 * MIB, 7 + round);
        check(p, 48 * MIB, 7 + round, "in a child");
    }
    check(inherited, len, 1, "what it inherited");
    _exit(0);
}

int main(int argc, char **argv) {
    must(argc == 2);
    struct rlimit most = {40 * MIB, 40 * MIB};
    setrlimit(RLIMIT_MEMLOCK, &most);
    char *p = map(12 * MIB);
    fill(p, 12 * MIB, 1);
    if (!strcmp(argv[1], "all"))
        must(mlockall(MCL_CURRENT) == 0);
    else
        must(mlock(p, 12 * MIB) == 0);
    pid_t pid = fork();
    must(pid >= 0);
    if (pid == 0)
        grow(p, 12 * MIB);
    int status;
    must(waitpid(pid, &status, 0) == pid && status == 0);
    puts("right");
    return 0;
}

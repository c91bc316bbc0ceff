/* Who may lock little forks with all of its future memory locked: what the fork takes is no more than before. */
#include "pages.h"
#include <grp.h>
#include <sys/resource.h>
#include <sys/wait.h>

int main(void) {
    char *p = map(10 * MIB);
    fill(p, 10 * MIB, 1);
    struct rlimit little = {5 * MIB, 5 * MIB};
    must(setrlimit(RLIMIT_MEMLOCK, &little) == 0);
    must(setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0);
    must(mlockall(MCL_FUTURE) == 0);
    for (int i = 0; i < 4; i++) {
        pid_t pid = fork();
        must(pid >= 0);
        if (pid == 0) {
            check(p, 10 * MIB, 1, "in a child");
            _exit(0);
        }
        int status;
        must(waitpid(pid, &status, 0) == pid && status == 0);
    }
    puts("right");
    return 0;
}

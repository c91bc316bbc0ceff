/* What a sandbox makes of its processes: the first of a namespace of processes, with a pager, goes to a root directory where
 * nothing is, and forks the first of another namespace, which can have no pager there. That one fills memory, and stays as long
 * as its input is open. Prints what could not be done. */
#include "pages.h"
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { OWN = 8 << 20, MORE = 60 << 20 };

static int end_of(pid_t child)
{
    int status;
    must(waitpid(child, &status, 0) == child);
    return status;
}

int main(void)
{
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID)) {
        puts("no namespaces");
        return 0;
    }
    pid_t first = fork();
    must(first >= 0);
    if (first)
        return end_of(first) != 0;
    void *own = map(OWN);
    fill(own, OWN, 1);
    must(!chroot("/proc/self/fdinfo") && !chdir("/"));
    pid_t second = syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
    must(second >= 0);
    if (!second) {
        void *more = map(MORE);
        fill(more, MORE, 2);
        char byte;
        must(read(0, &byte, 1) == 0);
        check(own, OWN, 1, "own");
        check(more, MORE, 2, "more");
        _exit(0);
    }
    return end_of(second) != 0;
}

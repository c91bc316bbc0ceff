/* A debugger and what it runs, which has much memory: says at which signals that stops. `fixed`: no debugger, but no
   text may be changed. */
#include "pages.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "fixed") == 0) {
        /* PR_SET_MDWE, of Linux 6.3. */
        prctl(65, 1, 0, 0, 0);
        execl("/proc/self/exe", argv[0], "runs", NULL);
        return 9;
    }
    if (argc > 1) {
        char *p = map(48 * MIB);
        fill(p, 48 * MIB, 1);
        check(p, 48 * MIB, 1, "traced");
        return 6;
    }
    pid_t pid = fork();
    must(pid >= 0);
    if (pid == 0) {
        must(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
        execl("/proc/self/exe", argv[0], "runs", NULL);
        _exit(9);
    }
    int status, count = 0;
    while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
        int signal = WSTOPSIG(status);
        if (signal != SIGTRAP) {
            count++;
            if (count < 5)
                printf("stopped by signal %d\n", signal);
        }
        must(ptrace(PTRACE_CONT, pid, NULL, signal == SIGTRAP ? 0 : signal) == 0);
    }
    printf("stopped %d times, then %d\n", count, WEXITSTATUS(status));
    return 0;
}

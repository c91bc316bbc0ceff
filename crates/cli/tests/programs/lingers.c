/* lingers FILE PROGRAM [ARGUMENTS]: run PROGRAM, and let its first thread come to its end only when FILE is there. So it has its
 * memory still after it was killed, as one that gets no core, however fast the machine is. Its status is PROGRAM's, as a shell
 * tells it. */
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    pid_t child = fork();
    if (child == 0) {
        raise(SIGSTOP);
        execv(argv[2], argv + 2);
        _exit(127);
    }
    int status;
    if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status))
        return 3;
    if (ptrace(PTRACE_SEIZE, child, 0, PTRACE_O_TRACEEXIT) != 0) {
        perror("ptrace");
        return 4;
    }
    kill(child, SIGCONT);
    while (waitpid(child, &status, __WALL) == child && WIFSTOPPED(status)) {
        int event = status >> 16, signal = WSTOPSIG(status);
        if (event == PTRACE_EVENT_EXIT)
            while (access(argv[1], F_OK) != 0)
                usleep(20000);
        ptrace(PTRACE_CONT, child, 0, event == 0 ? signal : 0);
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

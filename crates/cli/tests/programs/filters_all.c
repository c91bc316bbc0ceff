/* A filter of system calls for all threads (TSYNC) that traps what the program does not do: the dispatch of calls
   (prctl). Threads that begin after it, and set stacks for handlers. `helper`: one for its thread alone, which forbids
   a userfaultfd; it stays small, forks and executes a program. */
#include "pages.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static volatile int trapped;

static void on_trap(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info, (void)context;
    trapped++;
}

static void *thread(void *unused) {
    (void)unused;
    static _Thread_local char room[16384];
    stack_t stack = {.ss_sp = room, .ss_size = sizeof room}, old;
    must(sigaltstack(&stack, NULL) == 0 && sigaltstack(NULL, &old) == 0 && old.ss_sp == room);
    /* An arena of its own: the process grows. */
    char *p = malloc(1000);
    memset(p, 1, 1000);
    return p;
}

static void help(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 323 /* userfaultfd */, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, 2, &program) == 0);
    for (int i = 0; i < 2; i++) {
        pid_t pid = fork();
        must(pid >= 0);
        if (pid == 0) {
            if (i == 0)
                _exit(7);
            execl("/bin/echo", "echo", "right", NULL);
            _exit(1);
        }
        int status;
        must(waitpid(pid, &status, 0) == pid && status == (i ? 0 : 7 << 8));
    }
    exit(0);
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "helper"))
        help();
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    must(sigaction(SIGSYS, &action, NULL) == 0);
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 59, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    must(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0);
    pthread_t threads[6];
    for (int i = 0; i < 6; i++)
        must(pthread_create(&threads[i], NULL, thread, NULL) == 0);
    for (int i = 0; i < 6; i++)
        must(pthread_join(threads[i], NULL) == 0);
    char *p = map(20 * MIB);
    fill(p, 20 * MIB, 1);
    check(p, 20 * MIB, 1, "after the filter");
    must(trapped == 0);
    puts("right");
    return 0;
}

/* A filter of system calls for all threads (TSYNC) that traps what a pager asks for, in a process that has one and has
   memory out. Other threads read, map and fork meanwhile. `large`: what is out is more than the limit has room for.
   `added`: the thread that sets it for all has set the one that traps before, for itself. `vforked`: a child of vfork
   sets it, in the memory of a process that gets a pager later. */
#include "beside.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static volatile int trapped;

static void on_trap(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info, (void)context;
    trapped++;
}

static void filter(int is_for_all) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_eventfd2, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sigaltstack, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    must(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, is_for_all ? SECCOMP_FILTER_FLAG_TSYNC : 0, &program) == 0);
    if (is_for_all)
        return;
    struct sock_fprog harmless = {1, filter + sizeof filter / sizeof *filter - 2};
    must(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &harmless) == 0);
}

int main(int argc, char **argv) {
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    must(sigaction(SIGSYS, &action, NULL) == 0);
    int is_vforked = argc > 1 && !strcmp(argv[1], "vforked");
    if (is_vforked) {
        pid_t pid = vfork();
        if (pid == 0) {
            filter(1);
            _exit(7);
        }
        int status;
        must(pid > 0 && waitpid(pid, &status, 0) == pid && status == 7 << 8);
    }
    kept = map(len);
    fill(kept, len, 1);
    char *more = map(60 * MIB);
    fill(more, 60 * MIB, 2);
    if (is_vforked) {
        check(kept, len, 1, "after a child");
        puts("right");
        return 0;
    }
    if (argc > 1 && !strcmp(argv[1], "large"))
        filter(1);
    munmap(more, 60 * MIB);
    pthread_t threads[4];
    void *(*bodies[])(void *) = {reads, reads, maps, forks};
    for (int i = 0; i < 4; i++)
        must(pthread_create(&threads[i], NULL, bodies[i], NULL) == 0);
    usleep(50000);
    filter(argc == 1);
    usleep(200000);
    is_over = 1;
    for (int i = 0; i < 4; i++)
        must(pthread_join(threads[i], NULL) == 0);
    check(kept, len, 1, "after the filter");
    more = map(8 * MIB);
    fill(more, 8 * MIB, 2);
    check(more, 8 * MIB, 2, "what came later");
    must(trapped == 0);
    puts("right");
    return 0;
}

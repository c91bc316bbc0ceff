/* A thread is in a call that changes a mapping, and has no core until another one has made the process large: what the
 * call changes is under nobody's care when it begins. The parent traces them, and holds the call at the kernel's door.
 * Output as without uzswap. */
#include "pages.h"
#include <pthread.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* The length tells the call from all others. */
#define FIRST (131 * PAGE)
#define REST (40 * MIB)
#define IS_LARGE SYS_getpgrp

static void *grow(void *first) {
    (void)first;
    void *rest = mmap(0, REST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fill(rest, REST, 2);
    check(rest, REST, 2, "the rest");
    syscall(IS_LARGE);
    return rest;
}

static void change(const char *how) {
    void *first = mmap(0, FIRST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *rest;
    void *now = first;
    fill(first, FIRST, 1);
    pthread_t thread;
    pthread_create(&thread, 0, grow, first);
    if (!strcmp(how, "protect")) {
        if (mprotect(first, FIRST, PROT_READ))
            perror("mprotect");
    } else if (!strcmp(how, "drop")) {
        if (madvise(first, FIRST, MADV_DONTNEED))
            perror("madvise");
        for (size_t i = 0; i < FIRST; i++)
            if (((char *)first)[i]) {
                printf("byte %zu is not dropped\n", i);
                break;
            }
        fill(first, FIRST, 1);
    } else if (!strcmp(how, "move")) {
        void *to = mmap(0, FIRST, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        now = mremap(first, FIRST, FIRST, MREMAP_MAYMOVE | MREMAP_FIXED, to);
    } else {
        munmap(first, FIRST);
        now = mmap(first, FIRST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        fill(now, FIRST, 1);
    }
    pthread_join(thread, &rest);
    check(now, FIRST, 1, "what was changed");
    fill(rest, REST, 3);
    check(now, FIRST, 1, "the same, later");
    printf("%s: all is there\n", how);
}

static int is_the_change(const struct __ptrace_syscall_info *call) {
    return call->entry.args[1] == FIRST && call->entry.nr != SYS_mmap;
}

int main(int argc, char **argv) {
    (void)argc;
    pid_t child = fork(), held = 0;
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        change(argv[1]);
        return 0;
    }
    int status, is_large = 0;
    waitpid(child, &status, 0);
    ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL);
    for (pid_t stopped = child; stopped > 0; stopped = waitpid(-1, &status, __WALL)) {
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (stopped != child)
                continue;
            printf("%s %d\n", WIFEXITED(status) ? "exit" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
            return 0;
        }
        int signal = WSTOPSIG(status);
        if (signal == (SIGTRAP | 0x80)) {
            struct __ptrace_syscall_info call = {0};
            ptrace(PTRACE_GET_SYSCALL_INFO, stopped, sizeof call, &call);
            signal = 0;
            if (call.op == PTRACE_SYSCALL_INFO_ENTRY && is_the_change(&call) && !held && !is_large) {
                held = stopped;
                continue;
            }
            if (call.op == PTRACE_SYSCALL_INFO_ENTRY && call.entry.nr == IS_LARGE) {
                is_large = 1;
                if (held)
                    ptrace(PTRACE_SYSCALL, held, 0, 0);
            }
        } else if (signal == SIGSTOP || signal == SIGTRAP) {
            signal = 0;
        }
        ptrace(PTRACE_SYSCALL, stopped, 0, signal);
    }
    return 1;
}

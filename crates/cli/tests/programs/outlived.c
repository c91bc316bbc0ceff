/* A process made with CLONE_VM, but not CLONE_THREAD, or by vfork, that outlives its maker and then reads all that it shares with it.
 *
 * HOW the maker ends: exit, raw (the exit system call of its only thread), kill (SIGKILL of itself, which its pager does not see coming). */
#include "pages.h"
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define MEMORY (32 * MIB)
#define STACK (256 * 1024)

static char stack[STACK] __attribute__((aligned(64)));
static unsigned char *memory;
static int tell;

/* By system calls: libc's state is the maker's. */
static int survive(void *maker) {
    char c = 'b';
    while (syscall(SYS_kill, (long)maker, 0) == 0 || errno != ESRCH)
        usleep(1000);
    for (size_t page = 0; page < MEMORY / PAGE; page++)
        for (size_t i = 0; i < 512; i++)
            if (((uint64_t *)memory)[page * 512 + i] != word_of(1, page, i)) {
                c = ((uint64_t *)memory)[page * 512 + i] == 0 ? 'z' : 'd';
                goto end;
            }
    /* Memory that was never touched, and some that comes and goes. */
    void *p = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(p, 7, 4 * MIB);
    munmap(p, 4 * MIB);
    munmap(memory, MEMORY);
    c = 'w';
end:
    syscall(SYS_write, tell, &c, 1);
    syscall(SYS_exit_group, 0);
    return 0;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "exit";
    int told[2];
    char c = 'n';
    must(pipe(told) == 0);
    tell = told[1];
    pid_t maker = fork();
    if (maker == 0) {
        memory = map(MEMORY);
        fill(memory, MEMORY, 1);
        must(clone(survive, stack + STACK, CLONE_VM | CLONE_FILES | SIGCHLD, (void *)(long)getpid()) > 0);
        usleep(100000);
        if (!strcmp(how, "kill"))
            kill(getpid(), SIGKILL);
        if (!strcmp(how, "raw"))
            syscall(SYS_exit, 5);
        exit(5);
    }
    int status;
    must(waitpid(maker, &status, 0) == maker);
    close(told[1]);
    /* w: whole; z: zeros; d: something else; n: the survivor was stopped. */
    if (read(told[0], &c, 1) != 1)
        c = 'n';
    printf("%d %d %c\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0, c);
    return 0;
}

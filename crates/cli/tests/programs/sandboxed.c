/* Programs that give something up. sandboxed WHAT:
 * exits: fills 8 MiB, allows itself write and exit_group alone, and ends with status 7.
 * helper: forbids itself to open files for writing and userfaultfd, then runs itself as `fills`, as man-db runs its helpers.
 * fills: fills 8 MiB, and says `right`.
 * hides: is not dumpable, fills 64 MiB, and has a child look at it; then moves some beside a guard. full: the same with all descriptors in
 * use that it may have.
 * rules: fills 64 MiB, forbids itself all files, and has a child look.
 * masks: blocks all signals, begins a filter, opens them again, and catches one of its own. lends: as its child by vfork has no other stack.
 * drops: gives up root, then fills 64 MiB, and says `right` if all of it is there; status 99: it has no root. */
#include "pages.h"
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define NOBODY 65534
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif
#define IS(number, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, skip)
#define ANSWER(what) BPF_STMT(BPF_RET | BPF_K, what)

static void set(struct sock_filter *code, size_t len) {
    struct sock_fprog program = {len, code};
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void exits(void) {
    fill(map(8 * MIB), 8 * MIB, 7);
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        IS(SYS_write, 1), ANSWER(SECCOMP_RET_ALLOW), IS(SYS_exit_group, 1), ANSWER(SECCOMP_RET_ALLOW),
        ANSWER(SECCOMP_RET_KILL_PROCESS),
    };
    set(code, sizeof code / sizeof *code);
    if (write(1, "ends\n", 5) == 5)
        _exit(7);
}

static void helper(char *self) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        IS(SYS_userfaultfd, 1), ANSWER(SECCOMP_RET_ERRNO | ENOSYS), IS(SYS_openat, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_WRONLY | O_RDWR, 0, 1), ANSWER(SECCOMP_RET_ERRNO | ENOSYS),
        ANSWER(SECCOMP_RET_ALLOW),
    };
    set(code, sizeof code / sizeof *code);
    execl(self, self, "fills", (char *)0);
}

static void fills(size_t len) {
    char *p = map(len);
    fill(p, len, 3);
    check(p, len, 3, "what it filled");
    puts("right");
}

static void has_a_child_look(char *p, size_t len) {
    int status, dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        must(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == dumpable);
        check(p, len, 3, "what the child has");
        _exit(0);
    }
    must(waitpid(child, &status, 0) == child && status == 0);
    check(p, len, 3, "what its parent has");
    puts("right");
}

static void fills_and_forks(void) {
    char *p = map(64 * MIB);
    fill(p, 64 * MIB, 3);
    has_a_child_look(p, 64 * MIB);
}

/* Grows, so that it moves, and keeps what it has; calls write to what is new. */
static void moves_beside_a_guard(void) {
    char *p = map(16 * MIB), *moved;
    fill(p, 16 * MIB, 3);
    must(munmap(p + 8 * MIB, PAGE) == 0);
    moved = mremap(p, 8 * MIB, 16 * MIB, MREMAP_MAYMOVE);
    must(moved != MAP_FAILED);
    check(moved, 8 * MIB, 3, "what it has moved");
    (void)madvise(moved + 9 * MIB, PAGE, MADV_GUARD_INSTALL);
    must(getrandom(moved + 10 * MIB, PAGE, 0) == PAGE);
}

static void rules(void) {
    char *p = map(64 * MIB);
    fill(p, 64 * MIB, 3);
    struct landlock_ruleset_attr files = {.handled_access_fs = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE};
    int set = syscall(SYS_landlock_create_ruleset, &files, sizeof files, 0);
    // Where there is none it forbids nothing.
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && (set < 0 || syscall(SYS_landlock_restrict_self, set, 0) == 0));
    has_a_child_look(p, 64 * MIB);
}

static sigjmp_buf out;

static void jump(int signal) {
    (void)signal;
    siglongjmp(out, 1);
}

static void masks(void) {
    FILE *file = tmpfile();
    must(file);
    volatile char *end = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    char *p = map(32 * MIB);
    fill(p, 32 * MIB, 3);
    sigset_t all, before;
    struct sock_filter code[] = {ANSWER(SECCOMP_RET_ALLOW)};
    must(signal(SIGBUS, jump) != SIG_ERR && sigfillset(&all) == 0 && sigprocmask(SIG_SETMASK, &all, &before) == 0);
    set(code, sizeof code / sizeof *code);
    must(sigprocmask(SIG_SETMASK, &before, 0) == 0);
    if (sigsetjmp(out, 1) == 0) {
        *end = 1;
        must(!"a page behind the end");
    }
    check(p, 32 * MIB, 3, "what it has");
    puts("right");
}

static void lends(void) {
    stack_t own = {.ss_sp = malloc(64 << 10), .ss_size = 64 << 10}, now;
    fill(map(32 * MIB), 32 * MIB, 3);
    must(sigaltstack(&own, 0) == 0);
    pid_t child = vfork();
    if (child == 0) {
        stack_t none = {.ss_flags = SS_DISABLE};
        sigaltstack(&none, 0);
        _exit(0);
    }
    must(waitpid(child, 0, 0) == child && sigaltstack(0, &now) == 0);
    must(!(now.ss_flags & SS_DISABLE) && now.ss_sp == own.ss_sp);
    puts("right");
}

int main(int argc, char **argv) {
    must(argc == 2);
    if (!strcmp(argv[1], "exits"))
        exits();
    else if (!strcmp(argv[1], "helper"))
        helper(argv[0]);
    else if (!strcmp(argv[1], "fills"))
        fills(8 * MIB);
    else if (!strcmp(argv[1], "hides")) {
        must(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0);
        fills_and_forks();
        must(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0);
        moves_beside_a_guard();
    } else if (!strcmp(argv[1], "full")) {
        while (open("/dev/null", O_RDONLY) >= 0) {}
        fills_and_forks();
        moves_beside_a_guard();
    } else if (!strcmp(argv[1], "rules"))
        rules();
    else if (!strcmp(argv[1], "masks"))
        masks();
    else if (!strcmp(argv[1], "lends"))
        lends();
    else if (!strcmp(argv[1], "drops")) {
        if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
            return 99;
        fills(64 * MIB);
    }
    return 0;
}

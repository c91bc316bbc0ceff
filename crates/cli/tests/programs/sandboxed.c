/* Programs that give something up. sandboxed WHAT:
 * exits: fills 8 MiB, allows itself write and exit_group alone, and ends with status 7.
 * helper: forbids itself to open files for writing and userfaultfd, then runs itself as `fills`, as man-db runs its helpers.
 * fills: fills 8 MiB, and says `right`.
 * drops: gives up root, then fills 64 MiB, and says `right` if all of it is there; status 99: it has no root. */
#include "pages.h"
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define NOBODY 65534
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

int main(int argc, char **argv) {
    must(argc == 2);
    if (!strcmp(argv[1], "exits"))
        exits();
    else if (!strcmp(argv[1], "helper"))
        helper(argv[0]);
    else if (!strcmp(argv[1], "fills"))
        fills(8 * MIB);
    else if (!strcmp(argv[1], "drops")) {
        if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
            return 99;
        fills(64 * MIB);
    }
    return 0;
}

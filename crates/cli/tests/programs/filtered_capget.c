/* A filter that all threads get ends whoever calls capget: none does that the program has not called. */
#include "pages.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>

#define LEN (24 * MIB)

/* Faults follow each other closely. */
static void touch(const char *p) {
    uint64_t page = 1;
    for (int i = 0; i < 30000; i++) {
        page = (page * 6364136223846793005ul + 1442695040888963407ul) % (1ul << 62);
        size_t at = page >> 20 & (LEN / PAGE / 2 - 1);
        must(((const uint64_t *)p)[at * 512 + 1] == word_of(1, at, 1));
    }
}

int main(void) {
    char *p = map(LEN);
    fill(p, LEN, 1);
    touch(p);
    struct sock_filter lines[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_capget, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof lines / sizeof *lines, lines};
    must(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0);
    touch(p);
    puts("right");
    return 0;
}

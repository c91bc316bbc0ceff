/* A driver pins memory of which much is out: all of it is there, and stays. The driver is a filter that answers 0. */
#include "pages.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define MUCH (40 * MIB)
#define LEN (8 * MIB)
/* What NVIDIA's driver is asked by cudaHostRegister: 56 bytes, of class 0x71, with an address and the last byte. */
#define NV_ESC_RM_ALLOC_MEMORY 0xc0384627ul

static void answer(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NV_ESC_RM_ALLOC_MEMORY, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static size_t resident(char *memory) {
    static unsigned char pages[LEN / PAGE];
    size_t there = 0;
    must(mincore(memory, LEN, pages) == 0);
    for (size_t page = 0; page < LEN / PAGE; page++)
        there += pages[page] & 1;
    return there;
}

static int pin(char *memory, uint64_t class) {
    uint64_t words[7] = {0xc1d0001c, class << 32 | 0x5c000096, 0x40001010, (size_t)memory, LEN - 1};
    return ioctl(2, NV_ESC_RM_ALLOC_MEMORY, words);
}

int main(void) {
    char *much = map(MUCH), *pinned = map(LEN), *refused = map(LEN);
    fill(pinned, LEN, 1);
    fill(refused, LEN, 2);
    for (int round = 0; round < 2; round++)
        fill(much, MUCH, 3 + round);
    /* No driver: it may leave again. */
    must(pin(refused, 0x71) < 0);
    answer();
    must(pin(pinned, 0x71) == 0);
    printf("pinned: %zu pages\n", resident(pinned));
    for (int round = 0; round < 2; round++)
        fill(much, MUCH, 5 + round);
    printf("after others: %zu pages\n", resident(pinned));
    check(pinned, LEN, 1, "pinned");
    check(refused, LEN, 2, "refused");
    check(much, MUCH, 6, "much");
    return 0;
}

/* A virtual machine that adds up and changes memory of which its host has made much cold. Status 77: there can be none. */
#include "pages.h"
#include <fcntl.h>
#include <linux/kvm.h>
#include <sys/ioctl.h>

#define GUEST MIB
#define MUCH (48 * MIB)
#define SEGMENT (64 << 10)
#define CODE 0x1000

/* Adds up the bytes of a segment, and adds one to each. Of an 8086. */
static const unsigned char code[] = {
    0x31, 0xdb,       /*       xor bx, bx */
    0x31, 0xd2,       /*       xor dx, dx */
    0x02, 0x17,       /* next: add dl, [bx] */
    0x80, 0xd6, 0x00, /*       adc dh, 0 */
    0xfe, 0x07,       /*       inc byte [bx] */
    0x43,             /*       inc bx */
    0x75, 0xf6,       /*       jnz next */
    0x89, 0xd0,       /*       mov ax, dx */
    0xe7, 0x10,       /*       out 0x10, ax */
};

int main(void) {
    int kvm = open("/dev/kvm", O_RDWR);
    int machine = kvm < 0 ? -1 : ioctl(kvm, KVM_CREATE_VM, 0);
    int cpu = machine < 0 ? -1 : ioctl(machine, KVM_CREATE_VCPU, 0);
    if (cpu < 0)
        return 77;
    unsigned char *guest = map(GUEST), *much = map(MUCH);
    fill(guest, GUEST, 1);
    memcpy(guest + CODE, code, sizeof code);
    fill(much, MUCH, 2);
    struct kvm_userspace_memory_region region = {.memory_size = GUEST, .userspace_addr = (size_t)guest};
    must(ioctl(machine, KVM_SET_USER_MEMORY_REGION, &region) == 0);
    struct kvm_run *run =
        mmap(NULL, ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0), PROT_READ | PROT_WRITE, MAP_SHARED, cpu, 0);
    must(run != MAP_FAILED);
    for (int segment = 1; segment < (int)(GUEST / SEGMENT); segment++) {
        if (segment % 5 == 1)
            fill(much, MUCH, segment);
        struct kvm_sregs sregs;
        must(ioctl(cpu, KVM_GET_SREGS, &sregs) == 0);
        sregs.cs.base = sregs.cs.selector = 0;
        sregs.ds.base = segment * SEGMENT;
        sregs.ds.selector = segment * SEGMENT / 16;
        struct kvm_regs regs = {.rip = CODE, .rflags = 2};
        must(ioctl(cpu, KVM_SET_SREGS, &sregs) == 0 && ioctl(cpu, KVM_SET_REGS, &regs) == 0);
        int result = ioctl(cpu, KVM_RUN, 0);
        if (result || run->exit_reason != KVM_EXIT_IO) {
            printf("KVM_RUN: %d, errno %d, exit %u\n", result, errno, run->exit_reason);
            return 1;
        }
        printf("%x ", *(unsigned short *)((char *)run + run->io.data_offset));
    }
    unsigned sum = 0;
    for (size_t at = 0; at < GUEST; at++)
        sum = sum * 31 + guest[at];
    printf("%x\n", sum);
    return 0;
}

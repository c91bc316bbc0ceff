// Calls that change mappings, on memory most of which is out: odd arguments, refusals, a stack that was allocated. Says what is not as it has to be.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define PAGE 4096UL
#define PAGES 12288UL
#define STACK (256UL << 10)

static ucontext_t outside, inside;

static void fill(char *at, unsigned long pages, int seed) {
    for (unsigned long page = 0; page < pages; page++)
        for (unsigned long i = 0; i < PAGE; i += 8)
            *(unsigned long *)(at + page * PAGE + i) = (page + seed) * 0x9e3779b97f4a7c15UL >> (i & 32);
}

static void check(const char *what, char *at, unsigned long pages, int seed) {
    for (unsigned long page = 0; page < pages; page++)
        for (unsigned long i = 0; i < PAGE; i += 8)
            if (*(unsigned long *)(at + page * PAGE + i) != (page + seed) * 0x9e3779b97f4a7c15UL >> (i & 32)) {
                printf("%s: page %lu differs\n", what, page);
                return;
            }
    printf("%s: right\n", what);
}

static char *map(unsigned long pages) {
    char *at = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        exit(1);
    return at;
}

// On a stack that is memory as any other, most of which was never touched.
static void on_a_stack(void) {
    char *at = map(64);
    for (int i = 0; i < 200; i++) {
        fill(at, 64, i);
        if (munmap(at, 32 * PAGE) || mprotect(at + 32 * PAGE, 16 * PAGE, PROT_READ) || madvise(at + 48 * PAGE, 16 * PAGE, MADV_DONTNEED))
            printf("on a stack: %d\n", errno);
        munmap(at + 32 * PAGE, 32 * PAGE);
        at = map(64);
    }
    puts("on a stack");
    swapcontext(&inside, &outside);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    char *heap = sbrk(64 * PAGE);
    fill(heap, 64, 1);
    // Nothing behind it.
    char *at = map(PAGES + 64);
    munmap(at + PAGES * PAGE, 64 * PAGE);
    fill(at, PAGES, 2);
    printf("a break that is refused: %d\n", (char *)syscall(SYS_brk, 1) == (char *)sbrk(0));
    check("heap", heap, 64, 1);
    printf("PROT_SEM: %d\n", mprotect(at, 4096 * PAGE, PROT_READ | PROT_WRITE | 8));
    check("after PROT_SEM", at, PAGES, 2);
    printf("read-only, beyond its end: %d", mprotect(at, (PAGES + 32) * PAGE, PROT_READ) ? errno : 0);
    printf(" %d\n", mprotect(at, PAGES * PAGE, PROT_READ | PROT_WRITE) ? errno : 0);
    check("after that", at, PAGES, 2);
    printf("unaligned: %d %d\n", mprotect(at + 1, PAGE, PROT_READ) ? errno : 0, madvise(at + 1, PAGE, MADV_DONTNEED) ? errno : 0);
    printf("dropped, beyond its end: %d\n", madvise(at + 8192 * PAGE, (PAGES + 32 - 8192) * PAGE, MADV_DONTNEED) ? errno : 0);
    int other = 0;
    for (unsigned long page = 8192; page < PAGES; page++)
        other += at[page * PAGE + 8] != 0;
    printf("what is not zeros: %d\n", other);
    check("the others", at, 8192, 2);
    char *moved = mremap(at, 8192 * PAGE, 10000 * PAGE, MREMAP_MAYMOVE);
    check("moved", moved, 8192, 2);
    printf("grown: %d\n", moved[9000 * PAGE]);
    moved = mremap(moved, 10000 * PAGE, 4000 * PAGE, 0);
    check("shrunk", moved, 4000, 2);
    printf("nowhere: %d\n", mremap(moved, 4000 * PAGE, 4000 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, 3) == MAP_FAILED ? errno : 0);
    check("still", moved, 4000, 2);
    char *stack = map(STACK / PAGE);
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = STACK;
    inside.uc_link = &outside;
    makecontext(&inside, on_a_stack, 0);
    swapcontext(&outside, &inside);
    check("at last", moved, 4000, 2);
    return 0;
}

// Forks a child that can open no file, as its limit says, or, by root, as it is another user then. Most memory is out: writable, read-only, kept from children, with
// holes and moved.
// Both the child and a child of that say whether all of it reads as it was written.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096UL
#define PAGES 10240UL
#define READ_ONLY 2048UL
#define HOLE 3000UL
#define KEPT 4000UL
#define PART 512UL

static char *at;

static unsigned long word(unsigned long page, unsigned long i, int seed) {
    return (page + 1) * 0x9e3779b97f4a7c15UL + seed * (i / 64);
}

static void fill(unsigned long first, unsigned long end, int seed) {
    for (unsigned long page = first; page < end; page++)
        for (unsigned long i = 0; i < PAGE; i += 8)
            *(unsigned long *)(at + page * PAGE + i) = word(page, i, seed);
}

// Whether pages that lie at `from` now read as page `first` on did.
static int differ(char *from, unsigned long first, unsigned long end, int seed) {
    int pages = 0;
    for (unsigned long page = first; page < end; page++)
        for (unsigned long i = 0; i < PAGE; i += 8)
            if (*(unsigned long *)(from + (page - first) * PAGE + i) != word(page, i, seed)) {
                pages++;
                break;
            }
    return pages;
}

static char *moved;

// Some of the pages after the hole, and all others, but for those that only the parent has.
static void check(const char *who, int has_kept) {
    int bad = differ(at, 0, HOLE, 1) + differ(at + (HOLE + PART) * PAGE, HOLE + PART, KEPT, 1) +
              differ(at + (KEPT + PART) * PAGE, KEPT + PART, PAGES - PART, 1) + differ(moved, PAGES - PART, PAGES, 1);
    if (has_kept)
        bad += differ(at + KEPT * PAGE, KEPT, KEPT + PART, 1);
    printf("%s: %d pages differ\n", who, bad);
    fflush(stdout);
}

static void write_again(const char *who) {
    fill(KEPT + PART, KEPT + 2 * PART, 2);
    printf("%s, written: %d pages differ\n", who, differ(at + (KEPT + PART) * PAGE, KEPT + PART, KEPT + 2 * PART, 2));
    fill(KEPT + PART, KEPT + 2 * PART, 1);
    fflush(stdout);
}

int main(void) {
    at = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return 1;
    fill(0, PAGES, 1);
    mprotect(at + PART * PAGE, READ_ONLY * PAGE, PROT_READ);
    munmap(at + HOLE * PAGE, PART * PAGE);
    madvise(at + KEPT * PAGE, PART * PAGE, MADV_DONTFORK);
    moved = mremap(at + (PAGES - PART) * PAGE, PART * PAGE, PART * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0);
    if (getuid() == 0 && (setgid(65534) || setuid(65534)))
        return 1;
    struct rlimit none = {0, 0}, before;
    getrlimit(RLIMIT_NOFILE, &before);
    none.rlim_max = before.rlim_max;
    for (int n = 0; n < 3; n++) {
        setrlimit(RLIMIT_NOFILE, &none);
        int child = fork();
        if (child == 0) {
            check("child", 0);
            write_again("child");
            int grandchild = fork();
            if (grandchild == 0) {
                check("grandchild", 0);
                write_again("grandchild");
                _exit(3);
            }
            int status;
            waitpid(grandchild, &status, 0);
            _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
        }
        int status = 0;
        waitpid(child, &status, 0);
        printf("status %d\n", status);
        setrlimit(RLIMIT_NOFILE, &before);
        check("parent", 1);
        write_again("parent");
    }
    return 0;
}

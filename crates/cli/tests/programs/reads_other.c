/* Reads and writes the memory of a child, more of it than there is room for: reads_other WHAT. there: by process_vm_readv and
 * process_vm_writev, in calls of a page, of several buffers, and of some MiB. absent: what the child does not have is not read, and calls
 * end where it begins. stopped: the child is stopped; calls fail, or read right, and nothing is written behind its back. own: all of its
 * own memory in one call. executed: as there, of a child that is another program by then. killed: beside others that do the same and are
 * killed. Prints "right". */
#include "pages.h"
#include <signal.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define LEN (24 * MIB)
#define PAGES (LEN / PAGE)
#define MANY (3 * MIB)
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

static pid_t child;
static int ready[2], done[2], has_guards;
static char *p, *own;

static ssize_t transfer(int is_write, char *here, size_t at, size_t len) {
    struct iovec local = {here, len}, remote = {p + at, len};
    return (is_write ? process_vm_writev : process_vm_readv)(child, &local, 1, &remote, 1, 0);
}

static void tell(int fd) { must(write(fd, "", 1) == 1); }
static void hear(int fd) { char byte; must(read(fd, &byte, 1) == 1); }

static void is_page(const char *at, size_t page, uint64_t seed) {
    for (size_t i = 0; i < 512; i++)
        must(((const uint64_t *)at)[i] == word_of(seed, page, i));
}

static void set_pages(char *at, size_t page, size_t pages, uint64_t seed) {
    for (size_t n = 0; n < pages; n++)
        for (size_t i = 0; i < 512; i++)
            ((uint64_t *)at)[n * 512 + i] = word_of(seed, page + n, i);
}

static void be_read(uint64_t seed) {
    fill(p, LEN, 1);
    tell(ready[1]);
    hear(done[0]);
    check(p, LEN, seed, "child");
    _exit(0);
}

static void read_and_write(void) {
    for (size_t page = 0; page < PAGES; page += 7) {
        must(transfer(0, own, page * PAGE, PAGE) == (ssize_t)PAGE);
        is_page(own, page, 1);
    }
    for (size_t at = 0; at < LEN; at += MANY) {
        must(transfer(0, own, at, MANY) == (ssize_t)MANY);
        for (size_t page = 0; page < MANY / PAGE; page++)
            is_page(own + page * PAGE, at / PAGE + page, 1);
    }
    /* Buffers that begin and end anywhere: three pages of the child into four pieces. */
    for (size_t page = 1; page + 8 < PAGES; page += 301) {
        struct iovec local[4] = {{own, 100}, {own + 100, 0}, {own + 100, 5000}, {own + 5100, 3 * PAGE - 5100}};
        struct iovec remote[3] = {{p + page * PAGE, PAGE}, {p + (page + 4) * PAGE, PAGE}, {p + (page + 2) * PAGE, PAGE}};
        must(process_vm_readv(child, local, 4, remote, 3, 0) == (ssize_t)(3 * PAGE));
        is_page(own, page, 1);
        is_page(own + PAGE, page + 4, 1);
        is_page(own + 2 * PAGE, page + 2, 1);
    }
    for (size_t at = 0; at < LEN; at += MANY) {
        set_pages(own, at / PAGE, MANY / PAGE, 2);
        must(transfer(1, own, at, MANY) == (ssize_t)MANY);
    }
}

static void meet_the_end(void) {
    must(transfer(0, own, LEN, PAGE) == -1 && errno == EFAULT);
    must(transfer(0, own, LEN - PAGE, 2 * PAGE) == (ssize_t)PAGE);
    is_page(own, PAGES - 1, 1);
    struct iovec local = {own, 2 * PAGE}, remote[2] = {{p, PAGE}, {p + LEN, PAGE}};
    must(process_vm_readv(child, &local, 1, remote, 2, 0) == (ssize_t)PAGE);
    is_page(own, 0, 1);
    must(process_vm_readv(child, &local, 1, remote, 2, 1) == -1 && errno == EINVAL);
    must(transfer(0, NULL, 0, PAGE) == -1 && errno == EFAULT);
    must(transfer(0, own, 0, 0) == 0);
    /* Nor a guard, which stays. */
    for (int i = 0; i < 2; i++)
        must(transfer(i, own, LEN + PAGE, PAGE) == (has_guards ? -1 : (ssize_t)PAGE));
}

/* Nobody has waited for those that were killed. */
static void read_beside_killed(void) {
    enum { KILLED = 6 };
    pid_t killed[KILLED];
    for (int i = 0; i < KILLED; i++) {
        killed[i] = fork();
        must(killed[i] >= 0);
        for (size_t page = 0; killed[i] == 0; page = (page + 64) % PAGES)
            must(transfer(0, own, page * PAGE, 64 * PAGE) > 0);
        usleep(20000 + 7000 * i);
        must(kill(killed[i], SIGKILL) == 0);
        for (size_t page = i; page < PAGES; page += 101) {
            must(transfer(0, own, page * PAGE, PAGE) == (ssize_t)PAGE);
            is_page(own, page, 1);
        }
    }
    for (int i = 0; i < KILLED; i++)
        must(waitpid(killed[i], NULL, 0) == killed[i]);
}

static void read_stopped(void) {
    int status;
    must(kill(child, SIGSTOP) == 0 && waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    for (size_t page = 0; page < PAGES; page += 5000) {
        ssize_t got = transfer(0, own, page * PAGE, PAGE);
        must(got == (ssize_t)PAGE || (got == -1 && errno == EFAULT));
        if (got > 0)
            is_page(own, page, 1);
    }
    set_pages(own, PAGES - 1, 1, 2);
    must(transfer(1, own, (PAGES - 1) * PAGE, PAGE) == -1 && errno == EFAULT);
    must(kill(child, SIGCONT) == 0);
}

static void copy_own(void) {
    struct iovec from = {p, LEN}, to = {map(LEN), LEN};
    fill(p, LEN, 1);
    must(process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)LEN);
    check(to.iov_base, LEN, 1, "copy");
    fill(p, LEN, 3);
    must(process_vm_writev(getpid(), &from, 1, &to, 1, 0) == (ssize_t)LEN);
    check(to.iov_base, LEN, 3, "copied back");
}

/* The other program: says where its memory is. */
static int be_executed(char **argv) {
    ready[1] = atoi(argv[2]);
    done[0] = atoi(argv[3]);
    p = map(LEN + PAGE);
    must(munmap(p + LEN, PAGE) == 0);
    must(write(ready[1], &p, sizeof p) == sizeof p);
    be_read(2);
    return 1;
}

static void execute(char *self) {
    char to[16], from[16];
    snprintf(to, sizeof to, "%d", ready[1]);
    snprintf(from, sizeof from, "%d", done[0]);
    execl(self, self, "child", to, from, (char *)NULL);
    must(!"executed");
}

int main(int argc, char **argv) {
    if (argc == 4)
        return be_executed(argv);
    must(argc == 2 && pipe(ready) == 0 && pipe(done) == 0);
    int is_executed = strcmp(argv[1], "executed") == 0, status;
    int is_there = is_executed || strcmp(argv[1], "there") == 0;
    p = map(LEN + 3 * PAGE);
    own = map(MANY);
    must(munmap(p + LEN, PAGE) == 0);
    has_guards = madvise(p + LEN + PAGE, 2 * PAGE, MADV_GUARD_INSTALL) == 0;
    if (strcmp(argv[1], "own") == 0) {
        copy_own();
        printf("right\n");
        return 0;
    }
    if (is_executed)
        fill(p, LEN, 7);
    child = fork();
    must(child >= 0);
    if (child == 0 && is_executed)
        execute(argv[0]);
    if (child == 0)
        be_read(is_there ? 2 : 1);
    if (is_executed)
        must(read(ready[0], &p, sizeof p) == sizeof p);
    hear(ready[0]);
    if (is_there)
        read_and_write();
    else if (strcmp(argv[1], "absent") == 0)
        meet_the_end();
    else if (strcmp(argv[1], "killed") == 0)
        read_beside_killed();
    else
        read_stopped();
    tell(done[1]);
    must(waitpid(child, &status, 0) == child && status == 0);
    printf("right\n");
    return 0;
}

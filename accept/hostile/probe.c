// What programs do to their memory, their descriptors and themselves, and what each comes to: one line a thing, the
// same managed or not.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <dirent.h>
#include <sched.h>
#include <poll.h>
#include <spawn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/syscall.h>
#include <sys/ptrace.h>
extern char **environ;
#define SIZE (64ul << 20)
static unsigned char *m;
static unsigned char pat(size_t i) { return (unsigned char)((i >> 12) * 31 + (i & 4095) % 13); }
static void fill(unsigned char *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        p[i] = pat(i);
}
static size_t bad(unsigned char *p, size_t n) {
    size_t b = 0;
    for (size_t i = 0; i < n; i++)
        b += p[i] != pat(i);
    return b;
}
static void say(const char *what, long r) {
    printf("%-40s %ld%s%s\n", what, r, r < 0 ? " " : "", r < 0 ? strerrorname_np(errno) : "");
    fflush(stdout);
}
static void *thread(void *arg) { return (void *)bad(arg, SIZE / 4); }
static int count(const char *dir) {
    int n = 0;
    DIR *d = opendir(dir);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}
static long child(int (*f)(void)) {
    fflush(stdout);
    pid_t p = fork();
    if (!p)
        _exit(f());
    int s;
    if (p < 0)
        return p;
    waitpid(p, &s, 0);
    return s;
}
static int c_check(void) { return bad(m, SIZE) != 0; }
static int c_setuid_fork(void) {
    if (setgid(65534) || setuid(65534))
        return 9;
    int s;
    pid_t p = fork();
    if (!p)
        _exit(bad(m, SIZE) != 0);
    if (waitpid(p, &s, 0) < 0)
        return 8;
    return s ? 100 + (s & 127) : bad(m, SIZE) != 0;
}
static int c_deep(void) {
    for (int i = 0; i < 5; i++) {
        pid_t p = fork();
        if (p) {
            int s;
            waitpid(p, &s, 0);
            return s ? 1 : 0;
        }
    }
    return bad(m, SIZE) != 0;
}
static int c_nofile(void) {
    struct rlimit r = {8, 8};
    if (setrlimit(RLIMIT_NOFILE, &r))
        return 9;
    int s;
    pid_t p = fork();
    if (!p)
        _exit(bad(m, SIZE) != 0);
    waitpid(p, &s, 0);
    return s ? 100 + (s & 127) : 0;
}
static int c_nproc(void) {
    setgid(65533);
    setuid(65533);
    /* Room for the pager's threads, which count as this user's. */
    struct rlimit r = {24, 24};
    setrlimit(RLIMIT_NPROC, &r);
    pid_t p = fork();
    if (!p)
        _exit(0);
    if (p < 0)
        return errno;
    int s;
    waitpid(p, &s, 0);
    return s ? 200 : 0;
}
static int c_daemon(void) {
    int p[2];
    if (pipe(p))
        return 9;
    pid_t c = fork();
    if (!c) {
        setsid();
        if (fork())
            _exit(0);
        char r = bad(m, SIZE) != 0;
        write(p[1], &r, 1);
        _exit(0);
    }
    close(p[1]);
    int s;
    waitpid(c, &s, 0);
    char r;
    if (read(p[0], &r, 1) != 1)
        return 7;
    return r;
}
static int c_closeall(void) {
    for (int i = 3; i < 1024; i++)
        close(i);
    return bad(m, SIZE) != 0;
}
static int c_closerange(void) {
    if (syscall(SYS_close_range, 3, ~0u, 0))
        return 9;
    return bad(m, SIZE) != 0;
}
static int c_unshare_files(void) {
    if (unshare(CLONE_FILES))
        return errno;
    return bad(m, SIZE) != 0;
}
static int c_unshare_ns(void) {
    if (unshare(CLONE_NEWNS))
        return errno;
    return bad(m, SIZE) != 0;
}
static int c_unshare_pid(void) {
    if (unshare(CLONE_NEWPID))
        return errno;
    int s;
    pid_t p = fork();
    if (!p)
        _exit(bad(m, SIZE) != 0);
    if (p < 0)
        return errno;
    waitpid(p, &s, 0);
    return s ? 100 + (s & 127) : 0;
}
static int c_unshare_net(void) { return unshare(CLONE_NEWNET) ? errno : bad(m, SIZE) != 0; }
static int c_chroot(void) {
    if (chroot("/var/empty") && chroot("."))
        return 9;
    int s;
    pid_t p = fork();
    if (!p)
        _exit(bad(m, SIZE) != 0);
    waitpid(p, &s, 0);
    return s ? 100 + (s & 127) : 0;
}
static int c_dumpable(void) {
    prctl(PR_SET_DUMPABLE, 0);
    int s;
    pid_t p = fork();
    if (!p)
        _exit(bad(m, SIZE) != 0);
    waitpid(p, &s, 0);
    return s ? 100 + (s & 127) : 0;
}
static int c_pdeath(void) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    usleep(50000);
    return 0;
}
static int c_exec(void) {
    execl("/bin/echo", "echo", "executed", NULL);
    return 9;
}
static volatile int segv;
static void on_segv(int s, siginfo_t *i, void *c) {
    segv = s;
    _exit(i->si_code == SEGV_ACCERR ? 42 : 43);
}
static int c_ro(void) {
    struct sigaction a = {.sa_sigaction = on_segv, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &a, 0);
    mprotect(m, SIZE, PROT_READ);
    m[123456] = 1;
    return 0;
}
static int c_none(void) {
    struct sigaction a = {.sa_sigaction = on_segv, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &a, 0);
    mprotect(m, SIZE, PROT_NONE);
    return m[123456];
}
static int c_unmapped(void) {
    struct sigaction a = {.sa_sigaction = on_segv, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &a, 0);
    munmap(m, SIZE);
    return m[123456];
}
int main(void) {
    m = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fill(m, SIZE);
    say("bad after fill", bad(m, SIZE));
    say("entries in /proc/self/fd", count("/proc/self/fd"));

    int fd = memfd_create("x", 0);
    say("write", write(fd, m, SIZE));
    say("pread", pread(fd, m, SIZE, 0));
    say("bad", bad(m, SIZE));
    struct iovec v[2] = {{m, SIZE / 2}, {m + SIZE / 2, SIZE / 2}};
    say("pwritev", pwritev(fd, v, 2, 0));
    memset(m, 0, SIZE);
    say("preadv", preadv(fd, v, 2, 0));
    say("bad", bad(m, SIZE));
    say("process_vm_readv", process_vm_readv(getpid(), v, 1, &v[1], 1, 0));
    say("copy equal", memcmp(m, m + SIZE / 2, SIZE / 2));
    fill(m, SIZE);
    int df = open("probe.tmp", O_CREAT | O_RDWR | O_TRUNC | O_DIRECT, 0600);
    say("O_DIRECT write", write(df, m, SIZE));
    memset(m, 1, SIZE);
    say("O_DIRECT read", pread(df, m, SIZE, 0));
    say("bad", bad(m, SIZE));
    close(df);
    unlink("probe.tmp");
    int sv[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, sv);
    pid_t p = fork();
    if (!p) {
        size_t n = 0;
        ssize_t r;
        close(sv[1]);
        static unsigned char b[65536];
        size_t wrong = 0;
        while ((r = read(sv[0], b, sizeof b)) > 0) {
            for (ssize_t i = 0; i < r; i++)
                wrong += b[i] != pat(n + i);
            n += r;
        }
        printf("child read %zu wrong %zu\n", n, wrong);
        fflush(stdout);
        _exit(0);
    }
    close(sv[0]);
    size_t n = 0;
    while (n < SIZE) {
        ssize_t r = send(sv[1], m + n, SIZE - n, 0);
        if (r <= 0)
            break;
        n += r;
    }
    close(sv[1]);
    waitpid(p, 0, 0);
    say("sent", n);
    int pp[2];
    pipe(pp);
    fcntl(pp[1], F_SETPIPE_SZ, 1 << 20);
    struct iovec vs = {m + (3 << 20), 1 << 16};
    say("vmsplice", vmsplice(pp[1], &vs, 1, 0));
    static unsigned char b[1 << 16];
    say("read pipe", read(pp[0], b, sizeof b));
    say("equal", memcmp(b, m + (3 << 20), sizeof b));
    say("mlock 1M", mlock(m, 1 << 20));
    say("bad", bad(m, SIZE));
    say("munlock", munlock(m, 1 << 20));
    unsigned char vec[1];
    say("mincore", mincore(m, 4096, vec));
    say("MADV_DONTNEED", madvise(m + (8 << 20), 1 << 20, MADV_DONTNEED));
    say("zero", m[(8 << 20) + 77]);
    fill(m, SIZE);
    say("MADV_FREE", madvise(m, 1 << 20, MADV_FREE));
    fill(m, SIZE);
    say("MADV_COLD", madvise(m, SIZE, MADV_COLD));
    say("MADV_PAGEOUT", madvise(m, SIZE, MADV_PAGEOUT));
    say("bad", bad(m, SIZE));
    say("MADV_POPULATE_READ", madvise(m, 8 << 20, MADV_POPULATE_READ));
    say("MADV_POPULATE_WRITE", madvise(m, 8 << 20, MADV_POPULATE_WRITE));
    say("MADV_HUGEPAGE", madvise(m, SIZE, MADV_HUGEPAGE));
    say("MADV_COLLAPSE", madvise(m, 4 << 20, 25) == 0 || errno == EAGAIN || errno == EINVAL || errno == ENOMEM || errno == EBUSY);
    say("bad", bad(m, SIZE));
    say("MADV_NOHUGEPAGE", madvise(m, SIZE, MADV_NOHUGEPAGE));
    say("MADV_MERGEABLE", madvise(m, SIZE, MADV_MERGEABLE));
    say("MADV_UNMERGEABLE", madvise(m, SIZE, MADV_UNMERGEABLE));
    say("MADV_DONTDUMP", madvise(m, 1 << 20, MADV_DONTDUMP));
    say("MADV_DODUMP", madvise(m, 1 << 20, MADV_DODUMP));
    say("mprotect r", mprotect(m + (1 << 20), 1 << 20, PROT_READ));
    say("bad", bad(m, SIZE));
    say("mprotect rw", mprotect(m, SIZE, PROT_READ | PROT_WRITE));
    fill(m, SIZE);
    unsigned char *k = mremap(m, SIZE, SIZE + (16 << 20), MREMAP_MAYMOVE);
    say("mremap grow ok", k != MAP_FAILED);
    m = k;
    say("bad", bad(m, SIZE));
    k = mremap(m, SIZE + (16 << 20), SIZE, 0);
    say("mremap shrink same", k == m);
    say("bad", bad(m, SIZE));
    void *dst = mmap(0, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    k = mremap(m, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, dst);
    say("mremap fixed", k == dst);
    m = k;
    say("bad", bad(m, SIZE));
    k = mremap(m, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
    say("mremap dontunmap", k != MAP_FAILED);
    if (k != MAP_FAILED) {
        say("old zero", m[4096]);
        munmap(m, SIZE);
        m = k;
    }
    say("bad", bad(m, SIZE));
    say("remap_file_pages/brk", sbrk(8 << 20) != (void *)-1);
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], 0, thread, m);
    long s = 0;
    for (int i = 0; i < 4; i++) {
        void *r;
        pthread_join(t[i], &r);
        s += (long)r;
    }
    say("threads", s);
    say("child check", child(c_check));
    say("child of child of child", child(c_deep));
    say("daemon", child(c_daemon));
    say("setuid, fork", child(c_setuid_fork));
    say("RLIMIT_NOFILE 8, fork", child(c_nofile));
    say("RLIMIT_NPROC", child(c_nproc));
    say("close all", child(c_closeall));
    say("close_range", child(c_closerange));
    say("unshare files", child(c_unshare_files));
    say("unshare mount", child(c_unshare_ns));
    say("unshare pid", child(c_unshare_pid));
    say("unshare net", child(c_unshare_net));
    say("chroot", child(c_chroot));
    say("not dumpable", child(c_dumpable));
    say("pdeathsig", child(c_pdeath));
    say("write to read-only", child(c_ro));
    say("read of none", child(c_none));
    say("read of unmapped", child(c_unmapped));
    say("exec", child(c_exec));
    p = vfork();
    if (!p) {
        execl("/bin/true", "true", NULL);
        _exit(3);
    }
    int st;
    waitpid(p, &st, 0);
    say("vfork", st);
    char *argv[] = {"true", NULL};
    say("posix_spawn", posix_spawn(&p, "/bin/true", 0, 0, argv, environ));
    waitpid(p, &st, 0);
    say("status", st);
    say("system", system("exit 3"));
    FILE *f = popen("echo popen", "r");
    char line[99];
    say("popen", fgets(line, 99, f) != 0);
    say("pclose", pclose(f));
    struct rlimit rl;
    getrlimit(RLIMIT_NOFILE, &rl);
    say("nofile", rl.rlim_cur);
    getrlimit(RLIMIT_MEMLOCK, &rl);
    say("memlock", rl.rlim_cur);
    getrlimit(RLIMIT_CORE, &rl);
    say("core", rl.rlim_cur);
    int low = open("/dev/null", O_RDONLY);
    say("next descriptor", low);
    say("mlockall current", mlockall(MCL_CURRENT));
    say("munlockall", munlockall());
    say("mlockall future", mlockall(MCL_FUTURE));
    void *q = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    say("mmap locked", q != MAP_FAILED);
    munlockall();
    say("setns/unshare fs", unshare(CLONE_FS));
    say("bad", bad(m, SIZE));
    say("munmap", munmap(m, SIZE));
    return 0;
}

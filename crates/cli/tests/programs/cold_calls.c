/* System calls whose arguments are out, or lead to what is. cold_calls WHAT: says `right` if the call does as it does
 * where all is there. */
#include "pages.h"
#include <fcntl.h>
#include <linux/errqueue.h>
#include <linux/userfaultfd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif
#ifndef SO_ZEROCOPY
#define SO_ZEROCOPY 60
#define MSG_ZEROCOPY 0x4000000
#endif

/* Linux 6.8 */
#define FEATURE_MOVE (1 << 16)
struct move { uint64_t to, from, len, mode; int64_t moved; };
#define MOVE _IOWR(0xaa, 5, struct move)

#define AREA (4 * PAGE)
#define MUCH (48 * MIB)

/* Memory of which all is out, as far as there is a limit of half of what is filled after it. */
static char *area;

static void chill(void) {
    char *other = map(MUCH);
    fill(other, MUCH, 7);
    check(other, MUCH, 7, "what was filled last");
    munmap(other, MUCH);
}

static int own_process(void) {
    return syscall(SYS_pidfd_open, getpid(), 0);
}

static long advise(int advice) {
    struct iovec memory = {area, AREA};
    return syscall(SYS_process_madvise, own_process(), &memory, 1, advice, 0);
}

/* Whether a process may advise itself so: Linux 6.13. */
static int may_advise(int advice) {
    return syscall(SYS_process_madvise, own_process(), NULL, 0, advice, 0) == 0;
}

static void wiped(void) {
    if (!may_advise(MADV_WIPEONFORK))
        return;
    chill();
    must(advise(MADV_WIPEONFORK) == AREA);
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        check_zeros(area, AREA, "what is wiped on fork");
        _exit(0);
    }
    int status;
    must(waitpid(child, &status, 0) == child && status == 0);
    check(area, AREA, 1, "the parent's");
}

static void guarded(void) {
    if (!may_advise(MADV_GUARD_INSTALL))
        return;
    chill();
    must(advise(MADV_GUARD_INSTALL) == AREA);
    must(madvise(area, AREA, MADV_GUARD_REMOVE) == 0);
    check_zeros(area, AREA, "where guards were");
}

static void populated(void) {
    if (!may_advise(MADV_POPULATE_READ))
        return;
    chill();
    must(advise(MADV_POPULATE_READ) == AREA);
    check(area, AREA, 1, "what was populated");
}

static void moved(void) {
    struct uffdio_api api = {UFFD_API, FEATURE_MOVE, 0};
    int fd = syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) < 0)
        return;
    char *to = map(AREA);
    struct uffdio_register registered = {{(uintptr_t)to, AREA}, UFFDIO_REGISTER_MODE_MISSING, 0};
    must(ioctl(fd, UFFDIO_REGISTER, &registered) == 0);
    chill();
    struct move move = {(uintptr_t)to, (uintptr_t)area, AREA, 0, 0};
    must(ioctl(fd, MOVE, &move) == 0 && move.moved == AREA);
    check(to, AREA, 1, "what was moved");
    check_zeros(area, AREA, "where it was");
}

/* A call of many pieces is one notification. */
static void zerocopy(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0), to = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    must(bind(listener, (void *)&at, sizeof at) == 0 && listen(listener, 1) == 0);
    must(getsockname(listener, (void *)&at, &len) == 0 && connect(to, (void *)&at, sizeof at) == 0);
    int from = accept(listener, NULL, NULL);
    must(setsockopt(to, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof one) == 0);
    size_t much = 7 * MIB;
    char *sent = map(much);
    fill(sent, much, 3);
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        static char taken[MIB];
        close(to);
        while (read(from, taken, sizeof taken) > 0)
            ;
        _exit(0);
    }
    must(send(to, sent, much, MSG_ZEROCOPY) == (ssize_t)much);
    char control[128];
    struct msghdr message = {.msg_control = control, .msg_controllen = sizeof control};
    while (recvmsg(to, &message, MSG_ERRQUEUE) < 0)
        must(errno == EAGAIN && usleep(1000) == 0);
    struct sock_extended_err *told = (void *)CMSG_DATA(CMSG_FIRSTHDR(&message));
    must(told->ee_info == 0 && told->ee_data == 0);
    close(to);
    must(waitpid(child, NULL, 0) == child);
}

static void random_bytes(void) {
    char *much = map(MUCH);
    must(getrandom(much, MUCH, 0) == (ssize_t)MUCH);
    size_t zeros = 0;
    for (size_t page = 0; page < MUCH / PAGE; page++)
        zeros += *(uint64_t *)(much + page * PAGE) == 0;
    must(zeros == 0);
}

/* Who may not lock that much is told so, and what is locked as it comes is not brought. */
static void locked(void) {
    struct rlimit few = {64 << 10, 64 << 10};
    must(setrlimit(RLIMIT_MEMLOCK, &few) == 0);
    if (geteuid() == 0)
        must(setuid(65534) == 0);
    char *much = map(MUCH);
    fill(much, MUCH, 2);
    must(mlock(much, MUCH) < 0 && errno == ENOMEM);
    must(syscall(SYS_mlock2, much, MUCH, 1) < 0 && errno == ENOMEM);
    must(mlock(much, PAGE) == 0);
    check(much, MUCH, 2, "what was not locked");
}

/* A write that comes to the limit of a file's length is short. One that begins there raises a signal. */
static void too_long_a_file(void) {
    size_t most = 3 * MIB, much = 8 * MIB;
    struct rlimit length = {most, most};
    FILE *file = tmpfile();
    must(file && setrlimit(RLIMIT_FSIZE, &length) == 0);
    char *from = map(much);
    fill(from, much, 4);
    must(write(fileno(file), from, much) == (ssize_t)most);
    must(pwrite(fileno(file), from, much, 0) == (ssize_t)most);
}

/* What is appended begins at the end, wherever it is to. */
static void appended(void) {
    size_t much = 6 * MIB;
    struct rlimit length = {8 * MIB, RLIM_INFINITY};
    FILE *file = tmpfile();
    must(file && fcntl(fileno(file), F_SETFL, O_APPEND) == 0 && setrlimit(RLIMIT_FSIZE, &length) == 0);
    char *from = map(much);
    fill(from, much, 4);
    must(pwrite(fileno(file), from, much, 9 * MIB) == (ssize_t)much);
}

/* The upper half of a length of 32 bits may be anything. */
static void upper_half(void) {
    struct sockaddr_un *name = (void *)area;
    name->sun_family = AF_UNIX;
    strcpy(name->sun_path, "/none/such");
    chill();
    long said = syscall(SYS_connect, socket(AF_UNIX, SOCK_STREAM, 0), name, 7ul << 32 | sizeof *name);
    must(said < 0 && errno == ENOENT);
}

static void own_memory(void) {
    char here[2 * PAGE];
    struct iovec to = {here, sizeof here}, from = {area, sizeof here};
    chill();
    must(process_vm_readv(getpid(), &to, 1, &from, 1, 0) == sizeof here);
    check(here, sizeof here, 1, "what was read of itself");
    chill();
    must(process_vm_writev(getpid(), &to, 1, &from, 1, 0) == sizeof here);
    check(area, AREA, 1, "what was written to itself");
}

/* Whoever names a thread names its process. */
static void *read_by_thread(void *here) {
    struct iovec to = {here, PAGE}, from = {area, PAGE};
    chill();
    must(process_vm_readv(gettid(), &to, 1, &from, 1, 0) == (ssize_t)PAGE);
    return NULL;
}

static void own_thread(void) {
    char here[PAGE];
    pthread_t thread;
    must(pthread_create(&thread, NULL, read_by_thread, here) == 0);
    must(pthread_join(thread, NULL) == 0);
    check(here, PAGE, 1, "what a thread has read of its process");
}

/* Nothing is advised, and what is nobody's. */
static void advised(void) {
    if (!may_advise(MADV_WIPEONFORK))
        return;
    struct iovec memory = {area + 1, 0};
    must(syscall(SYS_process_madvise, own_process(), &memory, 1, MADV_WIPEONFORK, 0) == 0);
    memory = (struct iovec){(void *)(1ul << 63), PAGE};
    must(syscall(SYS_process_madvise, own_process(), &memory, 1, MADV_WIPEONFORK, 0) < 0 && errno == EFAULT);
}

static void slot_of_epoll(void) {
    struct { uint32_t set, number, skipped; } *slot = (void *)area;
    int set = epoll_create1(0), ends[2];
    struct epoll_event event = {.events = EPOLLIN};
    must(pipe(ends) == 0 && epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event) == 0);
    slot->set = set, slot->number = ends[0], slot->skipped = 0;
    chill();
    long said = syscall(SYS_kcmp, getpid(), getpid(), 7, ends[0], slot);
    must(said == 0 || errno == ENOSYS || errno == EPERM);
}

static void policy(void) {
    int mode = -1;
    chill();
    must(syscall(SYS_get_mempolicy, &mode, NULL, 0, area + PAGE, 3) == 0 || errno == ENOSYS);
}

/* What says how a child is made lies on two pages. */
static void made_child(void) {
    uint64_t *asked = (uint64_t *)(area + PAGE) - 5;
    memset(asked, 0, 88);
    asked[4] = SIGCHLD;
    chill();
    long child = syscall(SYS_clone3, asked, 88);
    must(child >= 0 || errno == ENOSYS);
    if (child == 0)
        _exit(0);
    must(child < 0 || waitpid(child, NULL, 0) == child);
}

/* Options of which a part is out are not cut short. */
static void mounted(void) {
    if (unshare(geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return;
    must(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    char *options = area + PAGE - 14;
    strcpy(options, "size=1m,mode=0750,nr_inodes=77");
    chill();
    if (mount("none", "/mnt", "tmpfs", 0, options) < 0)
        return;
    char line[4096];
    FILE *mounts = fopen("/proc/self/mounts", "r");
    int is_whole = 0;
    while (fgets(line, sizeof line, mounts))
        is_whole |= strstr(line, " /mnt tmpfs ") && strstr(line, "nr_inodes=77") && strstr(line, "mode=750");
    must(is_whole);
}

int main(int argc, char **argv) {
    static const struct { const char *name; void (*run)(void); } all[] = {
        {"wiped", wiped}, {"guarded", guarded}, {"populated", populated}, {"moved", moved}, {"zerocopy", zerocopy},
        {"random", random_bytes}, {"locked", locked}, {"file", too_long_a_file}, {"upper-half", upper_half},
        {"own-memory", own_memory}, {"epoll", slot_of_epoll}, {"policy", policy}, {"child", made_child},
        {"mounted", mounted}, {"appended", appended}, {"own-thread", own_thread}, {"advised", advised},
    };
    // In the middle of what is large enough to be managed, so that nothing brings it along.
    area = (char *)map(16 * MIB) + 8 * MIB;
    fill(area - 8 * MIB, 16 * MIB, 5);
    fill(area, AREA, 1);
    for (size_t i = 0; argc > 1 && i < sizeof all / sizeof *all; i++)
        if (strcmp(argv[1], all[i].name) == 0) {
            all[i].run();
            puts("right");
            return 0;
        }
    return 2;
}

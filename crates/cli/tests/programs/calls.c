/* System calls that reach cold memory: each must do what it does without a pager, and what it moved is compared.
 * calls MEBIBYTES: of cold memory. */
#include "pages.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

static char *cold;
static size_t len;
static uint64_t seed = 1;

#define MUST(what)                                                                                                     \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            printf("%d: %s: %s\n", __LINE__, #what, strerror(errno));                                                  \
            fflush(stdout);                                                                                            \
            _exit(2);                                                                                                  \
        }                                                                                                              \
    } while (0)

/* A page that was not touched for as long as can be had. */
static char *page(size_t n) { return cold + n % (len / PAGE) * PAGE; }

/* Everything is written in turn, so that the first parts are out when the last are written. */
static void chill(void) { fill(cold, len, ++seed); }

static void files(void) {
    char name[] = "/tmp/uzswap-calls.XXXXXX";
    int fd = mkstemp(name);
    MUST(fd >= 0);
    chill();
    /* As a whole: more than may be resident. */
    MUST(write(fd, cold, len) == (ssize_t)len);
    memset(cold, 0, len);
    MUST(lseek(fd, 0, SEEK_SET) == 0);
    MUST(read(fd, cold, len) == (ssize_t)len);
    check(cold, len, seed, "read");
    struct iovec parts[64];
    size_t part = len / 64;
    chill();
    for (int i = 0; i < 64; i++)
        parts[i] = (struct iovec){cold + i * part, part};
    MUST(pwritev(fd, parts, 64, 0) == (ssize_t)(64 * part));
    memset(cold, 0, len);
    MUST(preadv(fd, parts, 64, 0) == (ssize_t)(64 * part));
    check(cold, 64 * part, seed, "preadv");
    /* What was never touched. */
    char *fresh = mmap(0, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(pread(fd, fresh + 100, 2 * MIB, 0) == 2 * (ssize_t)MIB);
    MUST(memcmp(fresh + 100, cold, 2 * MIB) == 0);
    MUST(munmap(fresh, 4 * MIB) == 0);
    /* Names and answers in cold pages, at their edges too. */
    for (int edge = 0; edge < 2; edge++) {
        chill();
        char *path = page(3) + PAGE - (edge ? sizeof name / 2 : 64);
        strcpy(path, name);
        struct stat *at = (struct stat *)(page(77) + (edge ? PAGE - 40 : 8));
        char *answer = page(150) + PAGE - 4;
        chill();
        memcpy(path, name, sizeof name);
        fill(cold + len / 2, len / 2, ++seed);
        MUST(stat(path, at) == 0 && at->st_size == (off_t)(64 * part > len ? 64 * part : len));
        MUST(getcwd(answer, 4000) == answer);
        int again = open(path, O_RDONLY);
        MUST(again >= 0 && close(again) == 0);
    }
    MUST(unlink(name) == 0 && close(fd) == 0);
    puts("files");
}

static void *sink(void *arg) {
    int fd = *(int *)arg;
    char *copy = mmap(0, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t at = 0;
    for (ssize_t n; at < len && (n = read(fd, copy + at, len - at)) > 0;)
        at += n;
    MUST(at == len);
    check(copy, len, seed, "stream");
    MUST(munmap(copy, len) == 0);
    return 0;
}

static void streams(void) {
    int ends[2];
    pthread_t thread;
    MUST(pipe(ends) == 0);
    chill();
    MUST(pthread_create(&thread, 0, sink, &ends[0]) == 0);
    for (size_t at = 0; at < len;) {
        ssize_t n = write(ends[1], cold + at, len - at);
        MUST(n > 0);
        at += n;
    }
    MUST(pthread_join(thread, 0) == 0 && close(ends[0]) == 0 && close(ends[1]) == 0);
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    chill();
    MUST(pthread_create(&thread, 0, sink, &ends[0]) == 0);
    for (size_t at = 0; at < len;) {
        ssize_t n = send(ends[1], cold + at, len - at, 0);
        MUST(n > 0);
        at += n;
    }
    MUST(pthread_join(thread, 0) == 0 && close(ends[0]) == 0 && close(ends[1]) == 0);
    /* Messages stay apart, their parts and what names them in cold pages. */
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
    chill();
    struct msghdr *message = (struct msghdr *)page(9);
    struct iovec *parts = (struct iovec *)(page(40) + PAGE - 24);
    memset(message, 0, sizeof *message);
    parts[0] = (struct iovec){page(200), 5000};
    parts[1] = (struct iovec){page(300) + 4000, 3000};
    *message = (struct msghdr){.msg_iov = parts, .msg_iovlen = 2};
    fill(cold + len / 2, len / 2, ++seed);
    MUST(sendmsg(ends[0], message, 0) == 8000);
    parts[0] = (struct iovec){page(20), 100};
    parts[1] = (struct iovec){page(60) + 10, 7900};
    MUST(recvmsg(ends[1], message, 0) == 8000 && message->msg_flags == 0);
    MUST(memcmp(page(20), page(200), 100) == 0 && memcmp(page(60) + 10, page(200) + 100, 4900) == 0);
    MUST(send(ends[0], page(1), 100, 0) == 100 && recv(ends[1], page(90), 50000, 0) == 100);
    MUST(close(ends[0]) == 0 && close(ends[1]) == 0);
    puts("streams");
}

static void waits(void) {
    int ends[2];
    MUST(pipe(ends) == 0 && write(ends[1], "x", 1) == 1);
    int queue = epoll_create1(0);
    chill();
    struct epoll_event *event = (struct epoll_event *)(page(5) + PAGE - 6);
    struct epoll_event one = {.events = EPOLLIN, .data.u64 = 42};
    *event = one;
    MUST(epoll_ctl(queue, EPOLL_CTL_ADD, ends[0], event) == 0);
    fill(cold + len / 2, len / 2, ++seed);
    MUST(epoll_wait(queue, event, 10, 1000) == 1 && event->data.u64 == 42);
    struct pollfd *polled = (struct pollfd *)page(70);
    *polled = (struct pollfd){ends[0], POLLIN, 0};
    MUST(poll(polled, 1, 1000) == 1 && polled->revents == POLLIN);
    fd_set *set = (fd_set *)(page(99) + PAGE - 8);
    FD_ZERO(set);
    FD_SET(ends[0], set);
    MUST(select(ends[0] + 1, set, 0, 0, 0) == 1 && FD_ISSET(ends[0], set));
    struct timespec *time = (struct timespec *)page(120);
    *time = (struct timespec){0, 1000};
    MUST(nanosleep(time, 0) == 0 && clock_gettime(CLOCK_MONOTONIC, time) == 0 && time->tv_nsec >= 0);
    sigset_t *mask = (sigset_t *)page(130);
    sigemptyset(mask);
    sigaddset(mask, SIGUSR1);
    chill();
    sigemptyset(mask);
    sigaddset(mask, SIGUSR1);
    MUST(sigprocmask(SIG_BLOCK, mask, (sigset_t *)page(140)) == 0 && raise(SIGUSR1) == 0);
    MUST(sigwaitinfo(mask, (siginfo_t *)page(160)) == SIGUSR1);
    MUST(close(ends[0]) == 0 && close(ends[1]) == 0 && close(queue) == 0);
    puts("waits");
}

static void refused(void) {
    char *none = mmap(0, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int fd = open("/dev/zero", O_RDWR);
    MUST(none != MAP_FAILED && fd >= 0);
    MUST(read(fd, none, 10) == -1 && errno == EFAULT);
    MUST(syscall(SYS_read, fd, 16, 10) == -1 && errno == EFAULT);
    MUST(stat(none, (struct stat *)page(1)) == -1 && errno == EFAULT);
    MUST(write(-1, page(1), 10) == -1 && errno == EBADF);
    chill();
    MUST(mprotect(page(10), PAGE, PROT_READ) == 0);
    MUST(read(fd, page(10), 10) == -1 && errno == EFAULT);
    MUST(write(fd, page(10), PAGE) == PAGE);
    MUST(mprotect(page(10), PAGE, PROT_READ | PROT_WRITE) == 0);
    check(page(10), 0, seed, "protected");
    MUST(munmap(none, 2 * PAGE) == 0 && close(fd) == 0);
    puts("refused");
}

static void looked_at(int how) {
    check(cold, len, seed, "in a child");
    _exit(how);
}

static int status_of(pid_t child) {
    /* The answer goes to a cold page. */
    int *status = (int *)page(222);
    MUST(waitpid(child, status, 0) == child);
    int found = *status;
    fill(page(222), 0, 0);
    return found;
}

static int on_own_stack(void *arg) {
    MUST(arg == &seed);
    /* Beneath its own stack. */
    check(cold, len / 2, seed, "in a clone");
    return 8;
}

static void children(void) {
    chill();
    for (int i = 0; i < 3; i++) {
        pid_t child = i == 0 ? fork() : i == 1 ? (pid_t)syscall(SYS_fork) : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        MUST(child >= 0);
        if (child == 0)
            looked_at(7);
        int status;
        MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
        check(cold, len, seed, "after a fork");
    }
    /* One on a stack of its own, which is cold. */
    char *stack = page(6000);
    fill(cold, len / 2, seed);
    pid_t apart = clone(on_own_stack, stack + 16 * PAGE, SIGCHLD, &seed);
    int came;
    MUST(apart > 0 && waitpid(apart, &came, 0) == apart && WIFEXITED(came) && WEXITSTATUS(came) == 8);
    /* libc has written its function and argument there. */
    chill();
    /* A child that outlives its parent, and its child. */
    int ends[2];
    MUST(pipe(ends) == 0);
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        if (fork() == 0) {
            check(cold, len, seed, "in an orphan");
            MUST(write(ends[1], "o", 1) == 1);
        }
        _exit(0);
    }
    char told;
    MUST(waitpid(child, 0, 0) == child && read(ends[0], &told, 1) == 1 && told == 'o');
    MUST(close(ends[0]) == 0 && close(ends[1]) == 0);
    /* Its name and arguments in cold pages. */
    char *path = page(30), **args = (char **)(page(50) + PAGE - 16);
    strcpy(path, "/bin/true");
    args[0] = path;
    args[1] = page(31);
    strcpy(args[1], "argument");
    args[2] = 0;
    fill(cold + len / 2, len / 2, ++seed);
    MUST(posix_spawn(&child, path, 0, 0, args, args + 2) == 0);
    MUST(status_of(child) == 0);
    child = vfork();
    if (child == 0) {
        execv(path, args);
        _exit(9);
    }
    MUST(child > 0 && status_of(child) == 0);
    puts("children");
}

static volatile int handled;

static void on_alarm(int signal) {
    (void)signal;
    struct timespec now;
    MUST(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now) == 0);
    MUST(pwrite(1, page(handled * 17), 0, 0) <= 0);
    handled++;
}

static void *reader(void *arg) {
    int fd = open("/dev/zero", O_RDONLY);
    char *mine = arg;
    for (int i = 0; i < 2000; i++) {
        size_t n = (size_t)rand_r(&(unsigned){i}) % 40000 + 1;
        /* A signal may cut it short. */
        MUST(read(fd, mine + i % 50 * PAGE + i % 4000, n) > 0);
    }
    close(fd);
    return 0;
}

static void *receiver(void *arg) {
    char *fresh = mmap(0, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(recv(*(int *)arg, fresh + 100, 40000, 0) == 30000);
    MUST(munmap(fresh, MIB) == 0);
    return 0;
}

/* A stack of signals in memory that was cold, and a message for memory that is not looked after yet. */
static void late(void) {
    char *place = mmap(0, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(place, 1, MIB);
    chill();
    stack_t stack = {.ss_sp = place, .ss_size = MIB}, was;
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_ONSTACK};
    MUST(sigaltstack(&stack, &was) == 0 && sigaction(SIGUSR2, &action, 0) == 0);
    chill();
    MUST(raise(SIGUSR2) == 0 && handled > 0);
    MUST(sigaltstack(&was, 0) == 0);
    int ends[2];
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        usleep(300000);
        MUST(send(ends[1], page(1), 30000, 0) == 30000);
        _exit(0);
    }
    pthread_t thread;
    MUST(pthread_create(&thread, 0, receiver, &ends[0]) == 0);
    for (int i = 0; i < 3; i++)
        chill();
    MUST(pthread_join(thread, 0) == 0 && waitpid(child, 0, 0) == child);
    MUST(close(ends[0]) == 0 && close(ends[1]) == 0);
    puts("late");
}

/* Handlers that make calls, and threads that make them side by side. */
static void disturbed(void) {
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    MUST(sigaction(SIGALRM, &action, 0) == 0);
    struct itimerspec often = {{0, 2000000}, {0, 2000000}};
    timer_t timer;
    MUST(timer_create(CLOCK_MONOTONIC, 0, &timer) == 0 && timer_settime(timer, 0, &often, 0) == 0);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        MUST(pthread_create(&threads[i], 0, reader, cold + i * (len / 4)) == 0);
    for (int i = 0; i < 4; i++)
        MUST(pthread_join(threads[i], 0) == 0);
    MUST(timer_delete(timer) == 0 && handled > 0);
    puts("disturbed");
}

int main(int argc, char **argv) {
    len = (argc > 1 ? strtoul(argv[1], 0, 10) : 40) * MIB;
    cold = mmap(0, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    setvbuf(stdout, 0, _IOLBF, 0);
    files();
    streams();
    waits();
    refused();
    children();
    late();
    disturbed();
}

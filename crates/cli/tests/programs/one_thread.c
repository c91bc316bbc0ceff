/* Calls that the kernel makes for a process of one thread alone, by one whose memory is swapped out in part: a namespace of
 * users entered ("users", by libc or "raw"), or one of mounts ("mounts"). Prints what they answer; its memory is checked before
 * and after, in a forked child as well, and while it has a second thread. */
#include "pages.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { KEPT = 12 << 20, MORE = 40 << 20, ROUNDS = 3 };

static const char *how;
static pthread_barrier_t both;

static int enter(void)
{
    errno = 0;
    if (!strcmp(how, "users"))
        return unshare(CLONE_NEWUSER);
    if (!strcmp(how, "raw"))
        return syscall(SYS_unshare, CLONE_NEWUSER);
    int fd = open("/proc/self/ns/mnt", O_RDONLY);
    static int calls;
    int result = setns(fd, calls++ % 2 ? 0 : CLONE_NEWNS), error = errno;
    close(fd);
    errno = error;
    return result;
}

static void put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY);
    if (fd >= 0) {
        ssize_t put = write(fd, text, strlen(text));
        (void)put;
        close(fd);
    }
}

/* So that a namespace in that one may be made. */
static void tell_who(uid_t user, gid_t group)
{
    char line[40];
    snprintf(line, sizeof line, "%d %d 1", user, user);
    put("/proc/self/uid_map", line);
    put("/proc/self/setgroups", "deny");
    snprintf(line, sizeof line, "%d %d 1", group, group);
    put("/proc/self/gid_map", line);
}

/* More than the limit, for a while. */
static void grow(uint64_t seed)
{
    void *more = map(MORE);
    fill(more, MORE, seed);
    check(more, MORE, seed, "more");
    munmap(more, MORE);
}

static void *wait_twice(void *none)
{
    pthread_barrier_wait(&both);
    pthread_barrier_wait(&both);
    return none;
}

/* One that was waited for is among the threads for a moment yet. */
static void wait_until_alone(void)
{
    struct stat tasks;
    while (!stat("/proc/self/task", &tasks) && tasks.st_nlink > 3)
        usleep(1000);
}

static void tell(const char *who, int result)
{
    int error = result ? errno : 0;
    printf("%s: %d, %d\n", who, result, error);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    how = argc > 1 ? argv[1] : "users";
    uid_t user = getuid();
    gid_t group = getgid();
    void *kept = map(KEPT);
    fill(kept, KEPT, 1);
    pthread_barrier_init(&both, NULL, 2);
    for (int round = 0; round < ROUNDS; round++) {
        grow(2 + round);
        pthread_t other;
        must(!pthread_create(&other, NULL, wait_twice, NULL));
        pthread_barrier_wait(&both);
        tell("with another", enter());
        pthread_barrier_wait(&both);
        pthread_join(other, NULL);
        wait_until_alone();
        tell("alone", enter());
        tell_who(user, group);
        check(kept, KEPT, 1, "kept");
        pid_t child = fork();
        must(child >= 0);
        if (!child) {
            check(kept, KEPT, 1, "inherited");
            tell("child", enter());
            check(kept, KEPT, 1, "inherited");
            grow(20);
            check(kept, KEPT, 1, "inherited");
            _exit(0);
        }
        int status;
        must(waitpid(child, &status, 0) == child);
        printf("ended: %x\n", status);
        grow(30);
        check(kept, KEPT, 1, "kept");
    }
    puts("whole");
    return 0;
}

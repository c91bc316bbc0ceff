/* How many threads a program has, as the links of its directory of tasks say: by every call that tells, alone, with others,
 * and in a child. Prints it; the same without uzswap. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 40 << 20 };

static pthread_barrier_t both;

static void *wait_twice(void *none)
{
    pthread_barrier_wait(&both);
    pthread_barrier_wait(&both);
    return none;
}

static void tell(const char *who)
{
    struct stat one, two, three, four;
    struct statx five;
    char path[40];
    int proc = open("/proc/", O_RDONLY | O_DIRECTORY);
    snprintf(path, sizeof path, "/proc/%d/task", getpid());
    int failed = stat("/proc/self/task", &one) | lstat(path, &two) | fstatat(proc, "self/task/", &three, 0);
    failed |= stat("/proc/self/fd", &four) | statx(AT_FDCWD, "/proc/self/task/", 0, STATX_NLINK, &five);
    close(proc);
    printf("%s: %d, %d %d %d %d, %d\n", who, failed, (int)one.st_nlink, (int)two.st_nlink, (int)three.st_nlink,
           (int)five.stx_nlink, (int)four.st_nlink);
    fflush(stdout);
}

/* A path of that name that leads elsewhere. */
static void tell_of_another(void)
{
    char dir[] = "/tmp/uzswap-links-XXXXXX";
    struct stat one = {0}, two = {0};
    int failed = !mkdtemp(dir) || chdir(dir) || mkdir("self", 0700) || mkdir("self/task", 0700);
    failed |= mkdir("self/task/one", 0700) | stat("self/task", &one);
    failed |= rmdir("self/task/one") | rmdir("self/task") | close(creat("self/task", 0600));
    failed |= link("self/task", "self/other") | stat("self/task", &two);
    failed |= unlink("self/task") | unlink("self/other") | rmdir("self") | rmdir(dir);
    printf("another: %d, %d %d\n", failed, (int)one.st_nlink, (int)two.st_nlink);
    fflush(stdout);
}

int main(void)
{
    tell_of_another();
    char *memory = malloc(SIZE);
    for (size_t i = 0; i < SIZE; i += 64)
        memory[i] = (char)(i / 64 * 7);
    tell("alone");
    pthread_t threads[2];
    pthread_barrier_init(&both, NULL, 3);
    for (int n = 0; n < 2; n++)
        pthread_create(&threads[n], NULL, wait_twice, NULL);
    pthread_barrier_wait(&both);
    tell("three");
    pid_t child = fork();
    if (!child) {
        tell("child");
        return 0;
    }
    waitpid(child, NULL, 0);
    pthread_barrier_wait(&both);
    for (int n = 0; n < 2; n++)
        pthread_join(threads[n], NULL);
    for (size_t i = 0; i < SIZE; i += 64)
        if (memory[i] != (char)(i / 64 * 7))
            return 1;
    return 0;
}

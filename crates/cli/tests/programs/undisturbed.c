/* A thread forks children that end at once, another one waits in calls that the kernel does not make again after a signal.
   Says how often those were interrupted by what nobody handles. */
#include "pages.h"
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/wait.h>

static volatile int is_over;

static void *forks(void *unused) {
    for (int i = 0; i < 200; i++) {
        pid_t pid = fork();
        must(pid >= 0);
        if (pid == 0)
            _exit(7);
        int status;
        must(waitpid(pid, &status, 0) == pid && status == 7 << 8);
    }
    is_over = 1;
    return unused;
}

int main(void) {
    char *p = map(48 * MIB);
    fill(p, 48 * MIB, 1);
    pthread_t thread;
    must(pthread_create(&thread, NULL, forks, NULL) == 0);
    int epoll = epoll_create1(0), interrupted = 0;
    struct epoll_event event;
    while (!is_over)
        interrupted += epoll_wait(epoll, &event, 1, 50) < 0;
    must(pthread_join(thread, NULL) == 0);
    check(p, 48 * MIB, 1, "at the end");
    printf("interrupted %d times\n", interrupted);
    return 0;
}

/* A thread that gives memory back from inside its malloc, which holds a lock then that a fork wants: gives_back FORKS
 * says `right` when so many forks of another thread are over. */
#define _GNU_SOURCE
#include "pages.h"
#include <pthread.h>
#include <sys/wait.h>

static volatile int is_over;

/* In an arena of its own, which is cut each time that its top is free. */
static void *give_back(void *none) {
    while (!is_over) {
        char *all[16];
        for (int i = 0; i < 16; i++)
            memset(all[i] = malloc(60000), i, 60000);
        for (int i = 15; i >= 0; i--)
            free(all[i]);
    }
    return none;
}

int main(int argc, char **argv) {
    int forks = argc > 1 ? atoi(argv[1]) : 1;
    char *large = map(16 * MIB);
    fill(large, 16 * MIB, 1);
    pthread_t giver;
    must(pthread_create(&giver, NULL, give_back, NULL) == 0);
    usleep(20000);
    for (int i = 0; i < forks; i++) {
        int status;
        pid_t child = i % 2 ? fork() : _Fork();
        must(child >= 0);
        if (child == 0)
            _exit(i);
        must(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == i);
    }
    is_over = 1;
    must(pthread_join(giver, NULL) == 0);
    check(large, 16 * MIB, 1, "what lay beside");
    puts("right");
    return 0;
}

/* A signal that is sent to a thread which does nothing but fault arrives, each time: SIGSYS, which our handlers leave
   open, and SIGUSR1, which they do not. Usage: sent MEBIBYTES */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { SENT = 150, PATIENCE = 20000 };
static volatile sig_atomic_t arrived, over;
static pthread_t victim;

static void count(int signal) {
    (void)signal;
    arrived++;
}

static void *sender(void *argument) {
    const int signals[] = {SIGSYS, SIGUSR1};
    (void)argument;
    for (int sent = 0; sent < SENT; sent++) {
        int before = arrived;
        // The handler of the last one has returned.
        usleep(1000);
        pthread_kill(victim, signals[sent % 2]);
        for (int looks = 0; arrived == before; looks++) {
            if (looks == PATIENCE) {
                printf("signal %d is lost\n", sent);
                over = 1;
                return 0;
            }
            usleep(1000);
        }
    }
    over = 1;
    return 0;
}

int main(int argc, char **argv) {
    size_t pages = (size_t)atoi(argv[argc - 1]) * 256, wrong = 0, at = 1;
    size_t *memory = aligned_alloc(4096, pages * 4096);
    pthread_t thread;
    for (size_t page = 0; page < pages; page++)
        for (size_t i = 0; i < 512; i++)
            memory[page * 512 + i] = page * 7 + i * (page % 13);
    signal(SIGSYS, count);
    signal(SIGUSR1, count);
    // A clock for which the vDSO always makes a call.
    (void)clock();
    victim = pthread_self();
    pthread_create(&thread, 0, sender, 0);
    while (!over) {
        at = (at * 1103515245 + 12345) % pages;
        wrong += memory[at * 512 + 5] != at * 7 + 5 * (at % 13);
    }
    pthread_join(thread, 0);
    printf("%d arrived, %zu wrong\n", (int)arrived, wrong);
    return 0;
}

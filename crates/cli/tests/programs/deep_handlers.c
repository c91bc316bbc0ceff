/* Handlers that need much stack, and have none of their own, interrupt calls that sleep, and faults. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { LEN = 48 << 20, DEEP = 60000 };

static volatile int ticks;
static volatile long bad;

static void deep(int signal)
{
    char bytes[DEEP], text[200];
    struct timespec moment = {0, 1000};
    memset(bytes, ticks, sizeof bytes);
    for (int i = 0; i < DEEP; i += 997)
        bad += bytes[i] != (char)ticks;
    ticks++;
    snprintf(text, sizeof text, "%d %d %f", signal, ticks, ticks * 1.5);
    getppid();
    nanosleep(&moment, 0);
}

int main(void)
{
    struct sigaction action = {.sa_handler = deep, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 1500}, {0, 1500}}, never = {{0, 0}, {0, 0}};
    char *memory = malloc(LEN);
    long wrong = 0;
    int ends[2];
    if (!memory || pipe(ends) || sigaction(SIGALRM, &action, 0) || setitimer(ITIMER_REAL, &often, 0))
        return 2;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < LEN; i += 512)
            memory[i] = i * 7 + pass;
        for (size_t i = 0; i < LEN; i += 4096) {
            char byte = 0;
            wrong += write(ends[1], memory + i, 1) != 1 || read(ends[0], &byte, 1) != 1;
            wrong += byte != (char)(i * 7 + pass);
            if (i % (1 << 20) == 0)
                usleep(2000);
        }
    }
    setitimer(ITIMER_REAL, &never, 0);
    printf("%ld are wrong, %ld of the stack, handled: %d\n", wrong, bad, ticks > 0);
    return 0;
}

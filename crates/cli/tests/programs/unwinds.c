/* A handler looks who was in a call: functions of the program, up from where the thread stood. Calls whose memory is of
 * no concern, and one whose is. Prints the functions. */
#define _GNU_SOURCE
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

void raises(void), pauses(void), sleeps(void), all(void);
int main(void);
static void on_signal(int sig);

static const struct {
    const char *name;
    void (*function)(void);
} functions[] = {
    {"raises", raises}, {"pauses", pauses}, {"sleeps", sleeps},
    {"all", all}, {"main", (void (*)(void))main}, {"handler", (void (*)(void))on_signal},
};

/* Longer than each of them. */
enum { LONGEST = 256 };

static void on_signal(int sig)
{
    void *frames[64];
    int count = backtrace(frames, 64);
    printf("%d:", sig);
    for (int n = 0; n < count; n++) {
        const char *name = NULL;
        size_t nearest = LONGEST;
        for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
            size_t distance = (size_t)frames[n] - (size_t)functions[i].function;
            if (distance < nearest) {
                nearest = distance;
                name = functions[i].name;
            }
        }
        if (name)
            printf(" %s", name);
    }
    puts("");
}

__attribute__((noinline)) void raises(void)
{
    raise(SIGUSR1);
    __asm__ volatile("");
}

__attribute__((noinline)) void pauses(void)
{
    struct itimerval soon = {{0, 0}, {0, 30000}};
    setitimer(ITIMER_REAL, &soon, NULL);
    pause();
    __asm__ volatile("");
}

__attribute__((noinline)) void sleeps(void)
{
    struct itimerval soon = {{0, 0}, {0, 30000}};
    struct timespec second = {1, 0};
    setitimer(ITIMER_REAL, &soon, NULL);
    nanosleep(&second, NULL);
    __asm__ volatile("");
}

__attribute__((noinline)) void all(void)
{
    raises();
    pauses();
    sleeps();
    __asm__ volatile("");
}

int main(void)
{
    signal(SIGUSR1, on_signal);
    signal(SIGALRM, on_signal);
    all();
    return 0;
}

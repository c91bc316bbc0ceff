/* What is blocked in a handler on an alternate stack that comes as a handler on the thread's own returns to sigsuspend:
 * held back until then by the mask of the call, or by the first handler's. Prints it; the same without uzswap. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static sigset_t within;
static volatile int comes, nested, is_inside;

static void on_first(int sig)
{
    (void)sig;
    nested += is_inside;
    if (!comes++)
        raise(SIGUSR2);
}

static void on_second(int sig)
{
    (void)sig;
    is_inside = 1;
    sigprocmask(SIG_SETMASK, NULL, &within);
    raise(SIGUSR1);
    is_inside = 0;
}

static void wait_with(int held_by_call)
{
    struct sigaction first = {.sa_handler = on_first}, second = {.sa_handler = on_second, .sa_flags = SA_ONSTACK};
    sigset_t before, call;
    sigemptyset(&before);
    sigemptyset(&call);
    sigaddset(&before, SIGUSR1);
    sigaddset(&before, SIGTERM);
    sigaddset(held_by_call ? &call : &first.sa_mask, SIGUSR2);
    sigaction(SIGUSR1, &first, NULL);
    sigaction(SIGUSR2, &second, NULL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    comes = nested = 0;
    raise(SIGUSR1);
    sigsuspend(&call);
    printf("%d: %d %d %d, %d\n", held_by_call, sigismember(&within, SIGUSR1), sigismember(&within, SIGUSR2),
           sigismember(&within, SIGTERM), nested);
    /* The first is pending. */
    signal(SIGUSR1, SIG_IGN);
}

int main(void)
{
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&stack, NULL);
    size_t size = 48 << 20;
    char *memory = malloc(size);
    for (size_t i = 0; i < size; i += 64)
        memory[i] = (char)(i / 64);
    wait_with(0);
    wait_with(1);
    return 0;
}

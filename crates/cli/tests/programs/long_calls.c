/* Calls that go on while everything else leaves. coroutine: one whose buffer lies on a stack that the program made, before any of it is
 * under care. jumps: long reads that a handler leaves. threads: more of them than most programs have. arguments: a program that is given
 * very many. waiting: many threads that wait with large buffers. reset: a peer that is gone. Says `right` as without uzswap. */
#include "pages.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>

#define MUCH (48 * MIB)

static int ends[2], event;
static ucontext_t scheduler, coroutine;

static void use_much(void) {
    char *much = map(MUCH);
    fill(much, MUCH, 3);
    check(much, MUCH, 3, "much");
    must(munmap(much, MUCH) == 0);
}

static void *use_then_tell(void *unused) {
    usleep(200000);
    use_much();
    uint64_t one = 1;
    must(write(event, &one, sizeof one) == sizeof one);
    return unused;
}

static void wait_for_event(void) {
    char area[64 << 10];
    must(read(event, area + (32 << 10), 8) == 8);
    must(*(uint64_t *)(area + (32 << 10)) == 1);
}

static void wait_on_own_stack(void) {
    pthread_t thread;
    event = eventfd(0, 0);
    must(pthread_create(&thread, NULL, use_then_tell, NULL) == 0);
    must(getcontext(&coroutine) == 0);
    coroutine.uc_stack.ss_sp = map(MIB);
    coroutine.uc_stack.ss_size = MIB;
    coroutine.uc_link = &scheduler;
    makecontext(&coroutine, wait_for_event, 0);
    must(swapcontext(&scheduler, &coroutine) == 0);
    must(pthread_join(thread, NULL) == 0);
}

static sigjmp_buf out;

static void jump(int signal) {
    (void)signal;
    siglongjmp(out, 1);
}

static void leave_long_reads(void) {
    signal(SIGALRM, jump);
    use_much();
    for (volatile int i = 0; i < 12; i++) {
        char *buffer = map(4 * MIB);
        fill(buffer, 4 * MIB, 5);
        if (sigsetjmp(out, 1) == 0) {
            struct itimerval soon = {{0, 0}, {0, 20000}};
            must(setitimer(ITIMER_REAL, &soon, NULL) == 0);
            must(read(ends[0], buffer, 4 * MIB) != 0);
        }
    }
    use_much();
}

static void *wait_for_line(void *count) {
    char *line = malloc(PAGE);
    __atomic_fetch_add((int *)count, 1, __ATOMIC_SEQ_CST);
    must(read(ends[0], line, PAGE) == 0);
    free(line);
    return NULL;
}

static void wait_in_many_threads(void) {
    enum { THREADS = 2100 };
    static pthread_t threads[THREADS];
    static int waiting;
    pthread_attr_t small;
    must(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 64 << 10) == 0);
    for (int i = 0; i < THREADS; i++)
        must(pthread_create(&threads[i], &small, wait_for_line, &waiting) == 0);
    while (__atomic_load_n(&waiting, __ATOMIC_SEQ_CST) < THREADS)
        usleep(1000);
    usleep(100000);
    use_much();
    close(ends[1]);
    for (int i = 0; i < THREADS; i++)
        must(pthread_join(threads[i], NULL) == 0);
}

static void give_many_arguments(void) {
    enum { ARGUMENTS = 100000 };
    char **args = malloc((ARGUMENTS + 1) * sizeof *args), *letters = malloc(2 * ARGUMENTS);
    for (int i = 0; i < ARGUMENTS; i++) {
        args[i] = letters + 2 * i;
        strcpy(args[i], "x");
    }
    args[ARGUMENTS] = NULL;
    use_much();
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        execv("/bin/true", args);
        must(!"executed");
    }
    int status;
    must(waitpid(child, &status, 0) == child && status == 0);
}

/* What a peer that is gone has sent is read first, all that is there; then the error comes. What is looked at only is looked at as a whole. */
static void read_what_a_reset_leaves(void) {
    /* No multiple of what is read at a time. */
    enum { SENT = (5 << 20) + PAGE, MORE = 1 << 20 };
    int pair[2], much = 16 << 20;
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    char *sent = map(SENT + MORE), *buffer = map(2 * SENT);
    fill(sent + MORE, SENT, 4);
    fill(buffer, 2 * SENT, 5);
    use_much();
    if (setsockopt(pair[0], SOL_SOCKET, SO_SNDBUFFORCE, &much, sizeof much) < 0)
        return;
    must(write(pair[1], "", 1) == 1 && send(pair[0], sent, SENT + MORE, 0) == SENT + MORE);
    must(recv(pair[1], buffer, 2 * SENT, MSG_PEEK) == SENT + MORE);
    must(recv(pair[1], buffer, MORE, 0) == MORE);
    close(pair[0]);
    must(recv(pair[1], buffer, 2 * SENT, 0) == SENT);
    check(buffer, SENT, 4, "received");
    must(recv(pair[1], buffer, 2 * SENT, 0) == -1 && errno == ECONNRESET);
}

static void *wait_with_much(void *end) {
    char *buffer = map(MIB);
    must(read(*(int *)end, buffer, MIB) == 3 && memcmp(buffer, "one", 3) == 0 && buffer[3] == 0);
    must(munmap(buffer, MIB) == 0);
    return NULL;
}

static void wait_in_threads_with_much(void) {
    enum { THREADS = 60 };
    pthread_t threads[THREADS];
    int pairs[THREADS][2];
    for (int i = 0; i < THREADS; i++) {
        must((i % 2 ? pipe(pairs[i]) : socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i])) == 0);
        must(pthread_create(&threads[i], NULL, wait_with_much, &pairs[i][0]) == 0);
    }
    use_much();
    for (int i = 0; i < THREADS; i++)
        must(write(pairs[i][1], "one", 3) == 3 && pthread_join(threads[i], NULL) == 0);
}

/* Who writes to a peer that goes meanwhile is told how much went, and gets no signal. */
static void write_to_one_that_goes(void) {
    enum { ALL = 40 << 20, READ = 9 << 20 };
    int pair[2];
    char *p = map(ALL);
    fill(p, ALL, 6);
    for (int i = 0; i < 10; i++) {
        must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
        pid_t child = fork();
        must(child >= 0);
        if (child == 0) {
            char *read = map(READ);
            must(close(pair[0]) == 0 && recv(pair[1], read, READ, MSG_WAITALL) == READ);
            check(read, READ, 6, "what was sent");
            _exit(0);
        }
        must(close(pair[1]) == 0);
        ssize_t sent = i % 2 ? write(pair[0], p, ALL) : send(pair[0], p, ALL, 0);
        must(sent >= READ && sent < ALL);
        must(waitpid(child, NULL, 0) == child && close(pair[0]) == 0);
    }
}

int main(int argc, char **argv) {
    must(argc == 2 && pipe(ends) == 0);
    switch (argv[1][0]) {
    case 'c': wait_on_own_stack(); break;
    case 'j': leave_long_reads(); break;
    case 'r': read_what_a_reset_leaves(), write_to_one_that_goes(); break;
    case 't': wait_in_many_threads(); break;
    case 'w': wait_in_threads_with_much(); break;
    default: give_many_arguments();
    }
    printf("right\n");
    return 0;
}

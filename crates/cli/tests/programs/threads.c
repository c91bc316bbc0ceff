// Lives of thread groups: who leads them, who is left of them, who replaces them.
#include "life.h"
#include <pthread.h>

static uint64_t *memory;
static pid_t leader;

static int leader_is_dead(void) {
    char path[64], line[256] = "";
    sprintf(path, "/proc/self/task/%d/stat", leader);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : read(file, line, sizeof line - 1);
    if (file >= 0)
        close(file);
    char *state = length > 0 ? strrchr(line, ')') : 0;
    return !state || state[2] == 'Z';
}

static void *outlive_the_leader(void *status) {
    while (!leader_is_dead())
        nap(1);
    check(memory, FILL, 1, "the thread that is left");
    uint64_t *more = fill(8 * MIB, 2);
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        check(memory, FILL, 1, "child of a group without its leader");
        _exit(4);
    }
    say("child: %s\n", end_of(child));
    check(more, 8 * MIB, 2, "the thread that is left");
    say("the thread that is left: intact\n");
    if (status)
        exit((int)(intptr_t)status);
    return 0;
}

// leader-ends pthread|raw STATUS: STATUS 0: the last thread just returns.
static int leader_ends(int argc, char **argv) {
    must(argc == 3);
    memory = fill(FILL, 1);
    leader = getpid();
    pthread_t thread;
    must(pthread_create(&thread, 0, outlive_the_leader, (void *)(intptr_t)atoi(argv[2])) == 0);
    if (!strcmp(argv[1], "pthread"))
        pthread_exit(0);
    syscall(SYS_exit, 0);
    return WRONG;
}

// The only thread ends, not the process.
static int raw_exit(int argc, char **argv) {
    (void)argc, (void)argv;
    memory = fill(FILL, 1);
    check(memory, FILL, 1, "the only thread");
    say("the only thread: intact\n");
    syscall(SYS_exit, 5);
    return WRONG;
}

static void *raw_exit_of_one(void *unused) {
    (void)unused;
    check(memory, FILL, 1, "one of two");
    syscall(SYS_exit, 7);
    return 0;
}

// The leader first, then the other, both by the system call.
static int raw_exits(int argc, char **argv) {
    (void)argc, (void)argv;
    memory = fill(FILL, 1);
    pthread_t thread;
    must(pthread_create(&thread, 0, raw_exit_of_one, 0) == 0);
    syscall(SYS_exit, 3);
    return WRONG;
}

static void *replace_the_process(void *words) {
    check(memory, FILL, 1, "thread");
    execvp(((char **)words)[0], words);
    return 0;
}

// exec CMD...: from a thread that does not lead, while others read.
static void *read_for_ever(void *unused) {
    (void)unused;
    for (;;)
        check(memory, FILL, 1, "reader");
    return 0;
}

static int exec_from_a_thread(int argc, char **argv) {
    must(argc > 1);
    memory = fill(FILL, 1);
    pthread_t thread;
    must(pthread_create(&thread, 0, read_for_ever, 0) == 0);
    must(pthread_create(&thread, 0, replace_the_process, argv + 1) == 0);
    pthread_join(thread, 0);
    return WRONG;
}

static void *fork_and_check(void *number) {
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        check(memory, FILL, 1, "child of a thread");
        _exit((int)(intptr_t)number);
    }
    int status;
    must(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return (void *)(intptr_t)WEXITSTATUS(status);
}

static int forks_in_threads(int argc, char **argv) {
    (void)argc, (void)argv;
    memory = fill(FILL, 1);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        must(pthread_create(&threads[i], 0, fork_and_check, (void *)(intptr_t)(20 + i)) == 0);
    for (int i = 0; i < 3; i++) {
        void *status;
        must(pthread_join(threads[i], &status) == 0);
        say("child of thread %d: exit %d\n", i, (int)(intptr_t)status);
    }
    check(memory, FILL, 1, "parent");
    return 0;
}

static void *short_life(void *number) {
    size_t part = FILL / 4096 / 100, first = (intptr_t)number % 100 * part;
    for (size_t page = first; page < first + part; page++)
        for (size_t at = 0; at < WORDS; at += 64)
            must(memory[page * WORDS + at] == word(1, page, at));
    return number;
}

// Many threads, joined and detached, with stacks that come and go.
static int many(int argc, char **argv) {
    (void)argc, (void)argv;
    memory = fill(FILL, 1);
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    for (int round = 0; round < 20; round++) {
        pthread_t threads[20], gone;
        for (intptr_t i = 0; i < 20; i++)
            must(pthread_create(&threads[i], 0, short_life, (void *)(round * 20 + i)) == 0);
        must(pthread_create(&gone, &detached, short_life, 0) == 0);
        for (intptr_t i = 0; i < 20; i++) {
            void *number;
            must(pthread_join(threads[i], &number) == 0 && (intptr_t)number == round * 20 + i);
        }
    }
    check(memory, FILL, 1, "main");
    say("many threads: intact\n");
    return 0;
}

static void *cancelled(void *unused) {
    (void)unused;
    for (;;) {
        short_life((void *)(intptr_t)(rand() % 100));
        pthread_testcancel();
    }
    return 0;
}

static int cancel(int argc, char **argv) {
    (void)argc, (void)argv;
    memory = fill(FILL, 1);
    for (int round = 0; round < 10; round++) {
        pthread_t thread;
        void *result;
        must(pthread_create(&thread, 0, cancelled, 0) == 0);
        nap(2);
        must(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    }
    check(memory, FILL, 1, "main");
    say("cancelled threads: intact\n");
    return 0;
}

int main(int argc, char **argv) {
    static const struct life lives[] = {
        {"leader-ends", leader_ends},
        {"raw-exit", raw_exit},
        {"raw-exits", raw_exits},
        {"exec", exec_from_a_thread},
        {"fork", forks_in_threads},
        {"many", many},
        {"cancel", cancel},
        {0, 0},
    };
    return live(lives, argc, argv);
}

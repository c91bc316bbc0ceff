// Memory in corners: a vDSO that is unmapped, terabytes that are reserved beside what is forked,
// threads that begin as the pager does.
#include "life.h"

#include <pthread.h>
#include <sys/auxv.h>

// As valgrind does, which has a clock of its own.
static int no_vdso(int argc, char **argv) {
    (void)argc, (void)argv;
    char *vdso = (char *)getauxval(AT_SYSINFO_EHDR);
    must(vdso && munmap(vdso, 8192) == 0);
    check(fill(2 * FILL, 1), 2 * FILL, 1, "memory");
    return 0;
}

// What is replaced again and again has the pool compacted, over all that may have words.
static int reserved(int argc, char **argv) {
    (void)argc, (void)argv;
    size_t size = (size_t)16 << 40;
    char *sparse = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    must(sparse != MAP_FAILED);
    for (int i = 0; i < 64; i++)
        sparse[size / 64 * i] = i;
    uint64_t *memory = fill(FILL, 1);
    for (int round = 2; round < 6; round++) {
        fill_at(memory, FILL, round);
        for (size_t at = 0; at < FILL; at += 32768)
            must(madvise((char *)memory + at, at / 4096 * 13 % 3 ? 16384 : 4096, MADV_DONTNEED) == 0);
        fill_at(memory, FILL, round);
        pid_t child = fork();
        must(child >= 0);
        if (child == 0)
            _exit(is_intact(memory, FILL, round) ? 10 : WRONG);
        say("child %d: %s\n", round, end_of(child));
    }
    for (int i = 0; i < 64; i++)
        must(sparse[size / 64 * i] == i);
    return 0;
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void *pass(void *of) {
    volatile char stack[6000];
    stack[0] = 1;
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    return stack[0] == 1 ? of : 0;
}

// Stacks are mapped in the hole behind the heap, which is registered at that time.
static int threads(int argc, char **argv) {
    (void)argc, (void)argv;
    enum { THREADS = 300 };
    for (int i = 0; i < 4; i++) {
        pid_t child = fork();
        must(child >= 0);
        if (child == 0) {
            for (int block = 0; block < 100; block++)
                memset(malloc(65000), block, 65000);
            pthread_t all[THREADS];
            pthread_mutex_lock(&gate);
            for (int n = 0; n < THREADS; n++)
                must(pthread_create(&all[n], 0, pass, 0) == 0);
            pthread_mutex_unlock(&gate);
            for (int n = 0; n < THREADS; n++)
                pthread_join(all[n], 0);
            _exit(10);
        }
        say("child %d: %s\n", i, end_of(child));
    }
    return 0;
}

int main(int argc, char **argv) {
    static const struct life lives[] = {
        {"no-vdso", no_vdso},
        {"reserved", reserved},
        {"threads", threads},
        {0, 0},
    };
    return live(lives, argc, argv);
}

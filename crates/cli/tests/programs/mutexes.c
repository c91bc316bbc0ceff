/* Which pages stay in which the kernel writes to mutexes, as the pagemap says: mutexes live|packed|churned|freed. live: a mutex in each
 * page, some on its border. packed: at addresses that are a multiple of 4. churned: after 70,000 in pages that were unmapped again.
 * freed: destroyed, and the memory is malloc's small blocks since; their sizes look like kinds of mutexes. */
#include "pages.h"
#include <fcntl.h>
#include <pthread.h>

#define PAGES 64
#define OTHER (48 * MIB)

static int is_there(const char *p) {
    static int pagemap = -1;
    uint64_t entry = 0;
    if (pagemap < 0)
        pagemap = open("/proc/self/pagemap", O_RDONLY);
    must(pread(pagemap, &entry, sizeof entry, (uintptr_t)p / PAGE * sizeof entry) == sizeof entry);
    return entry >> 63 & 1;
}

static long count_there(const char *p, long pages) {
    long there = 0;
    for (long i = 0; i < pages; i++)
        there += is_there(p + i * PAGE);
    return there;
}

/* Every other one inherits priority. */
static pthread_mutex_t *make(char *at, int i) {
    pthread_mutexattr_t attr;
    must(pthread_mutexattr_init(&attr) == 0);
    if (i % 2)
        must(pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT) == 0);
    else
        must(pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST) == 0);
    must(pthread_mutexattr_settype(&attr, i % 3) == 0);
    must(pthread_mutex_init((pthread_mutex_t *)at, &attr) == 0);
    must(pthread_mutexattr_destroy(&attr) == 0);
    return (pthread_mutex_t *)at;
}

static void press(void) {
    char *other = map(OTHER);
    fill(other, OTHER, 2);
    for (int times = 0; times < 3; times++)
        check(other, OTHER, 2, "other");
    must(munmap(other, OTHER) == 0);
}

static int live(int offset) {
    char *home = map((PAGES + 1) * PAGE);
    for (int i = 0; i < PAGES; i++)
        make(home + i * PAGE + (i % 7 == 6 ? PAGE - 8 * (1 + i % 4) : 128) + offset, i);
    press();
    printf("%ld of %d pages are there\n", count_there(home, PAGES), PAGES);
    for (int i = 0; i < PAGES; i++) {
        pthread_mutex_t *m = (pthread_mutex_t *)(home + i * PAGE + (i % 7 == 6 ? PAGE - 8 * (1 + i % 4) : 128) + offset);
        must(pthread_mutex_lock(m) == 0 && pthread_mutex_unlock(m) == 0);
    }
    return 0;
}

static int churned(void) {
    enum { TIMES = 70000 };
    char *room = mmap(NULL, TIMES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    must(room != MAP_FAILED);
    for (long i = 0; i < TIMES; i++) {
        char *page = room + i * PAGE;
        must(mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page);
        must(pthread_mutex_destroy(make(page, i)) == 0 && munmap(page, PAGE) == 0);
    }
    return live(0);
}

static int freed(void) {
    enum { COUNT = 2000, BIG = 4000 };
    static char *big[COUNT];
    for (int i = 0; i < COUNT; i++)
        make(big[i] = malloc(BIG), i);
    for (int i = 0; i < COUNT; i++)
        must(pthread_mutex_destroy((pthread_mutex_t *)big[i]) == 0);
    for (int i = 0; i < COUNT; i++)
        free(big[i]);
    for (long left = COUNT * (long)BIG, i = 0; left > 0; i++) {
        size_t len = 24 + i % 8 * 16;
        unsigned *small = calloc(1, len);
        small[0] = i;
        left -= len + 8;
    }
    press();
    long pages = COUNT * (long)BIG / PAGE, there = count_there(big[0], pages);
    printf(there < pages / 8 ? "they leave\n" : "%ld of %ld pages are there\n", there, pages);
    return 0;
}

int main(int argc, char **argv) {
    must(argc == 2);
    switch (argv[1][0]) {
    case 'l': return live(0);
    case 'p': return live(4);
    case 'c': return churned();
    default: return freed();
    }
}

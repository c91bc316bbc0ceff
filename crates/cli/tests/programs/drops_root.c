/* Root is given up while pages are wanted closely: no thread that would then be kept from running for ever waits for a core that
 * is idle (SCHED_IDLE). */
#include "pages.h"
#include <dirent.h>
#include <grp.h>
#include <sched.h>

#define LEN (24 * MIB)

static void fill_all(char *p) {
    for (size_t at = 0; at < LEN; at += MIB)
        fill(p + at, MIB, 1);
}

/* How many threads give way to all others. */
static int idle_threads(void) {
    DIR *tasks = opendir("/proc/self/task");
    must(tasks);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(tasks));) {
        int thread = atoi(entry->d_name);
        count += thread > 0 && sched_getscheduler(thread) == SCHED_IDLE;
    }
    closedir(tasks);
    return count;
}

/* The same, while all is wanted a few times. */
static int look(const char *p, const char *when) {
    int count = 0;
    for (int i = 0; i < 6; i++)
        for (size_t at = 0; at < LEN; at += MIB) {
            check(p + at, MIB, 1, when);
            count += idle_threads();
        }
    return count;
}

int main(void) {
    char *p = map(LEN);
    fill_all(p);
    int before = look(p, "before");
    must(setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0);
    int after = idle_threads() + look(p, "after");
    if (after)
        printf("%d looks of some 290 found one, %d before\n", after, before);
    puts("right");
    return after != 0;
}

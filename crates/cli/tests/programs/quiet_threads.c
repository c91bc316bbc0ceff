/* Whoever frees the memory of a process as it ends takes turns with all others: no thread of a quiet process waits for
 * an idle core (SCHED_IDLE). Says `right` as without uzswap. */
#include "pages.h"
#include <dirent.h>
#include <sched.h>

static int waits_for_idle_core(void) {
    int waits = 0;
    DIR *threads = opendir("/proc/self/task");
    for (struct dirent *thread; (thread = readdir(threads));)
        waits |= sched_getscheduler(atoi(thread->d_name)) == SCHED_IDLE;
    closedir(threads);
    return waits;
}

int main(void) {
    void *memory = mmap(0, 48 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int round = 0; round < 3; round++) {
        fill(memory, 48 * MIB, round);
        check(memory, 48 * MIB, round, "memory");
    }
    for (int look = 0; look < 100 && waits_for_idle_core(); look++)
        usleep(100000);
    printf(waits_for_idle_core() ? "a thread waits for an idle core\n" : "right\n");
    return 0;
}

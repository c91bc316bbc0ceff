/* Gives up what it holds, and looks what every thread of the process holds after that: none holds more than the first one. The memory is whole
 * all the time, forked children's too.
 *
 * HOW, with another argument for a second thread: libc (setgroups, setresgid, setresuid), libc1
 * (setgid, setuid), eff (seteuid to nobody and back), and,
 * for a single thread, raw (by the system calls themselves, which are followed a moment later), caps (capset only). */
#include "pages.h"
#include <grp.h>
#include <linux/capability.h>
#include <pthread.h>
#include <dirent.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define MEMORY (24 * MIB)
#define NOBODY 65534

static int held(const char *thread, char *into, size_t size) {
    char path[300], line[4096];
    snprintf(path, sizeof path, "/proc/self/task/%s/status", thread);
    FILE *f = fopen(path, "r");
    if (!f)
        return -1;
    into[0] = 0;
    while (fgets(line, sizeof line, f))
        if (!strncmp(line, "Uid", 3) || !strncmp(line, "Gid", 3) || !strncmp(line, "Groups", 6) || !strncmp(line, "CapPrm", 6) ||
            !strncmp(line, "CapEff", 6) || !strncmp(line, "CapInh", 6) || !strncmp(line, "CapBnd", 6) || !strncmp(line, "CapAmb", 6))
            strncat(into, line, size - strlen(into) - 1);
    fclose(f);
    return 0;
}

/* How many threads hold something else than the first one. */
static int others(int say) {
    char mine[4096], theirs[4096], me[16];
    int n = 0;
    snprintf(me, sizeof me, "%d", getpid());
    must(held(me, mine, sizeof mine) == 0);
    DIR *d = opendir("/proc/self/task");
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.' && held(e->d_name, theirs, sizeof theirs) == 0 && strcmp(mine, theirs)) {
            n++;
            if (say)
                printf("thread %s holds\n%swhere the first one holds\n%s", e->d_name, theirs, mine);
        }
    closedir(d);
    return n;
}

static void *idle(void *arg) {
    pause();
    return arg;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "libc";
    unsigned char *memory = map(MEMORY);
    gid_t none[1] = {NOBODY};
    pthread_t thread;

    fill(memory, MEMORY, 1);
    if (argc > 2)
        pthread_create(&thread, NULL, idle, NULL);
    must(others(1) == 0);
    if (!strcmp(how, "libc")) {
        must(setgroups(1, none) == 0);
        must(others(1) == 0);
        must(setresgid(NOBODY, NOBODY, NOBODY) == 0);
        must(setresuid(NOBODY, NOBODY, NOBODY) == 0);
    } else if (!strcmp(how, "libc1")) {
        must(setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
    } else if (!strcmp(how, "raw")) {
        must(syscall(SYS_setgroups, 0, NULL) == 0 && syscall(SYS_setgid, NOBODY) == 0 && syscall(SYS_setuid, NOBODY) == 0);
    } else if (!strcmp(how, "caps")) {
        struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
        struct __user_cap_data_struct data[2] = {{1 << CAP_CHOWN, 1 << CAP_CHOWN | 1 << CAP_KILL, 0}, {0, 0, 0}};
        must(syscall(SYS_capset, &header, data) == 0);
    } else {
        must(seteuid(NOBODY) == 0 && others(1) == 0);
        must(seteuid(0) == 0 && others(1) == 0);
        must(seteuid(NOBODY) == 0);
    }
    if (!strcmp(how, "raw") || !strcmp(how, "caps"))
        for (int i = 0; i < 5000 && others(0); i++)
            usleep(10000);
    must(others(1) == 0);
    for (int round = 0; round < 1; round++) {
        check(memory, MEMORY, 1, "memory");
        unsigned char *more = map(MEMORY);
        fill(more, MEMORY, 2);
        check(memory, MEMORY, 1, "memory again");
        pid_t child = fork();
        if (child == 0) {
            check(memory, MEMORY, 1, "a child's");
            _exit(0);
        }
        int status;
        must(waitpid(child, &status, 0) == child && status == 0);
        check(more, MEMORY, 2, "more memory");
        munmap(more, MEMORY);
    }
    must(others(1) == 0);
    puts("whole");
    return 0;
}

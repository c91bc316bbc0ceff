/* Fails to become another program, and is as it was: nobody traces it, and signals come. */
#include "pages.h"
#include <signal.h>

static char long_argument[200000];
static volatile sig_atomic_t came;

static void come(int signal) {
    (void)signal;
    came++;
}

int main(int argc, char **argv) {
    must(argc == 2);
    char *memory = map(8 * MIB);
    fill(memory, 8 * MIB, 1);
    memset(long_argument, 'x', sizeof long_argument - 1);
    char *args[] = {argv[1], long_argument, NULL};
    signal(SIGUSR1, come);
    for (int n = 0; n < 5; n++) {
        must(execv(argv[1], args) == -1 && errno == E2BIG);
        FILE *status = fopen("/proc/self/status", "r");
        char line[256];
        while (fgets(line, sizeof line, status))
            if (strncmp(line, "TracerPid:", 10) == 0)
                printf("%s", line);
        fclose(status);
        raise(SIGUSR1);
    }
    printf("%d signals\n", (int)came);
    int first = dup(0);
    printf("next descriptor %d\n", first);
    check(memory, 8 * MIB, 1, "what was there before");
    fflush(stdout);
    return execl(argv[1], argv[1], "/bin/echo", "became", NULL);
}

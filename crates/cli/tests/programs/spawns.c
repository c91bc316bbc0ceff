/* Starts a program in the way of posix_spawn, and says how it ended. */
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

extern char **environ;

int main(int argc, char **argv) {
    (void)argc;
    pid_t child;
    int status;
    if (posix_spawn(&child, argv[1], NULL, NULL, argv + 1, environ) != 0 || waitpid(child, &status, 0) != child)
        return 1;
    printf("spawned: %x\n", status);
    return 0;
}

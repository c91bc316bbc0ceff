/* small RETITLES CHILDREN KIBIBYTES FILE: a daemon, that is its parent ends at once, with so many children. Each holds so much until FILE is there. With
 * RETITLES 1 it has written over its environment before, as programs do that change their title. */
#include "pages.h"

#include <string.h>
#include <sys/wait.h>

extern char **environ;

static void retitle(void) {
    char *start = environ[0], *end = start;
    for (char **entry = environ; *entry; entry++)
        end = *entry + strlen(*entry);
    memset(start, 0, end - start);
    *environ = NULL;
}

int main(int argc, char **argv) {
    must(argc == 5);
    if (atoi(argv[1]))
        retitle();
    /* Twice, as daemons do: nobody sees the one between. */
    if (fork())
        _exit(0);
    setsid();
    if (fork())
        _exit(0);
    for (int i = 0; i < atoi(argv[2]); i++) {
        if (fork())
            continue;
        size_t len = strtoul(argv[3], NULL, 10) << 10;
        char *own = memset(malloc(len), i + 1, len);
        while (access(argv[4], F_OK) != 0)
            usleep(20000);
        _exit(own[len / 2] != (char)(i + 1));
    }
    while (wait(NULL) > 0)
        ;
    return 0;
}

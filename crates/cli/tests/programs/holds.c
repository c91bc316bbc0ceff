/* holds MEGABYTES FILE [CHILDREN]: fill so much memory and hold it, reading it again and again, until FILE is there; so do so many
 * forked children, which share it. Status 3: a page has changed. */
#include "pages.h"

#include <sys/wait.h>

int main(int argc, char **argv) {
    size_t len = strtoul(argv[1], NULL, 10) * MIB;
    int children = argc > 3 ? atoi(argv[3]) : 0, is_child = 0;
    char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fill(p, len, 7);
    for (int i = 0; i < children && !is_child; i++)
        is_child = fork() == 0;
    do {
        check(p, len, 7, "held");
        usleep(20000);
    } while (access(argv[2], F_OK) != 0);
    check(p, len, 7, "held");
    int status, worst = 0;
    while (!is_child && wait(&status) > 0)
        worst |= status;
    return worst != 0;
}

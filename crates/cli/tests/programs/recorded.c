/* recorded MEGABYTES FILE: write so much memory in order, read it in order in a forked child, then here. FILE gets two lines, a
 * number each: of the first page, and of the child. Status 3: a page has changed. */
#include "pages.h"

#include <sys/wait.h>

int main(int argc, char **argv) {
    must(argc == 3);
    size_t len = strtoul(argv[1], NULL, 10) * MIB;
    char *p = map(len);
    fill(p, len, 7);
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        check(p, len, 7, "child");
        _exit(0);
    }
    int status;
    must(waitpid(child, &status, 0) == child);
    check(p, len, 7, "parent");
    FILE *file = fopen(argv[2], "w");
    must(file && fprintf(file, "%lu\n%d\n", (uintptr_t)p / PAGE, child) > 0 && fclose(file) == 0);
    return status != 0;
}

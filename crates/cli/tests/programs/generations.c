/* A daemon that renews itself: each child goes on as its parent ends, and writes to a part. */
#include "pages.h"

int main(int argc, char **argv) {
    int generations = argc > 1 ? atoi(argv[1]) : 300;
    size_t len = 10 * MIB, part = MIB;
    char *p = map(len);
    unsigned char seeds[10] = {0};
    fill(p, len, 0);
    for (int n = 1; n <= generations; n++) {
        pid_t pid = fork();
        must(pid >= 0);
        if (pid > 0)
            _exit(0);
        int at = n % 10;
        seeds[at] = n % 200;
        fill(p + at * part, part, seeds[at]);
        if (n % 20 == 0)
            for (int i = 0; i < 10; i++)
                check(p + i * part, part, seeds[i], "a generation");
    }
    puts("right");
    return 0;
}

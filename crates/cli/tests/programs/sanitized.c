/* Fills 24 MiB, reads it back, and loses one block: where leaks are looked for, all of memory is read once more at the end, while all
   threads stand. With DROP root is given up before. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = (24 << 20) / 8 };

uint64_t *volatile words;

int main(void)
{
    uint64_t wrong = 0;
    words = malloc(WORDS * sizeof *words);
    for (uint64_t pass = 0; pass < 3; pass++)
        for (uint64_t i = 0; i < WORDS; i++) {
            if (pass && words[i] != i / 3 + pass - 1)
                wrong++;
            words[i] = i / 3 + pass;
        }
#ifdef DROP
    if (!geteuid() && (setgid(65534) || setuid(65534)))
        return 2;
    printf("%llu words are wrong\n", (unsigned long long)wrong);
    return wrong != 0;
#endif
    /* A child looks as well. */
    pid_t child = fork();
    if (!child)
        exit(words[WORDS - 1] == (WORDS - 1) / 3 + 2 ? 0 : 1);
    int status;
    waitpid(child, &status, 0);
    printf("%llu words are wrong, the child: %d\n", (unsigned long long)wrong, WEXITSTATUS(status));
    return wrong != 0;
}

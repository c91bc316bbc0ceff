/* Becomes itself with an environment that says nothing of uzswap, and prints what it finds there and behind it. With
 * -DLIBRARY: a library that it loads, whose constructor changes the environment first: -DUNSETS, -DSETS. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#ifdef LIBRARY
__attribute__((constructor)) static void change(void)
{
#ifdef UNSETS
    unsetenv("FIRST");
#endif
#ifdef SETS
    setenv("THIRD", "3", 1);
#endif
}
#else
extern char **environ;

int main(int argc, char **argv)
{
    char *bare[] = {"FIRST=1", "SECOND=2", 0};
    if (argc == 1) {
        char *args[] = {argv[0], "again", 0};
        execve("/proc/self/exe", args, bare);
        return 1;
    }
    for (char **entry = environ; *entry; entry++)
        puts(*entry);
    char **at = argv + argc + 1;
    while (*at)
        puts(*at++);
    /* What is unset leaves a second null. */
    while (!*at)
        at++;
    unsigned long page = 0;
    for (unsigned long *pair = (unsigned long *)at; *pair; pair += 2)
        if (*pair == AT_PAGESZ)
            page = pair[1];
    printf("%lu %lu %d\n", page, getauxval(AT_PAGESZ), getauxval(AT_SYSINFO_EHDR) != 0);
    size_t size = 24 << 20;
    char *memory = malloc(size);
    for (size_t i = 0; i < size; i += 64)
        memory[i] = (char)(i / 64 * 7);
    long wrong = 0;
    for (size_t i = 0; i < size; i += 64)
        wrong += memory[i] != (char)(i / 64 * 7);
    printf("%ld\n", wrong);
    return 0;
}
#endif

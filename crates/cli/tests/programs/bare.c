/* Becomes itself, by a thread, with an environment that says nothing of uzswap, again and again, and prints what it finds
 * there and behind it. With -DLIBRARY: a library that it loads, whose constructor changes the environment first: -DUNSETS,
 * -DSETS. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
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

static void *become(void *args)
{
    char *bare[] = {"FIRST=1", "SECOND=2", 0};
    execve("/proc/self/exe", args, bare);
    return args;
}

int main(int argc, char **argv)
{
    int left = argc == 1 ? 30 : atoi(argv[1]);
    if (left > 0) {
        char next[12], *args[] = {argv[0], next, 0};
        snprintf(next, sizeof next, "%d", left - 1);
        pthread_t thread;
        pthread_create(&thread, NULL, become, args);
        pthread_join(thread, NULL);
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

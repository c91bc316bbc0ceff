/* A program that has its own memset, memcpy, memmove, bcmp, memcmp and strlen, and mapping functions and dlsym too: they are for its
   one thread only. Fills 48 MiB, and reads it back. */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile int is_ready;

static void check_thread(void)
{
    if (is_ready && syscall(SYS_gettid) != getpid())
        __builtin_trap();
}

void *memcpy(void *to, const void *from, size_t n)
{
    check_thread();
    for (size_t i = 0; i < n; i++)
        ((volatile char *)to)[i] = ((const char *)from)[i];
    return to;
}

void *memmove(void *to, const void *from, size_t n)
{
    check_thread();
    volatile char *t = to;
    const char *f = from;
    for (size_t i = 0; i < n; i++)
        if (t < f)
            t[i] = f[i];
        else
            t[n - 1 - i] = f[n - 1 - i];
    return to;
}

void *memset(void *to, int c, size_t n)
{
    check_thread();
    for (size_t i = 0; i < n; i++)
        ((volatile char *)to)[i] = c;
    return to;
}

int memcmp(const void *a, const void *b, size_t n)
{
    check_thread();
    for (size_t i = 0; i < n; i++)
        if (((const volatile unsigned char *)a)[i] != ((const unsigned char *)b)[i])
            return ((const unsigned char *)a)[i] - ((const unsigned char *)b)[i];
    return 0;
}

int bcmp(const void *a, const void *b, size_t n) { return memcmp(a, b, n); }

size_t strlen(const char *s)
{
    check_thread();
    size_t n = 0;
    while (((const volatile char *)s)[n])
        n++;
    return n;
}

int *__errno_location(void)
{
    static int number;
    check_thread();
    return &number;
}

#ifdef ALL
/* Nobody but the program may call these. */
static volatile int ours;
#define GUARD() do { if (!ours) __builtin_trap(); } while (0)
void *mmap(void *a, size_t n, int p, int f, int fd, off_t o) { GUARD(); return (void *)syscall(SYS_mmap, a, n, p, f, fd, o); }
int munmap(void *a, size_t n) { GUARD(); return syscall(SYS_munmap, a, n); }
int madvise(void *a, size_t n, int advice) { GUARD(); return syscall(SYS_madvise, a, n, advice); }
int mlockall(int flags) { GUARD(); return syscall(SYS_mlockall, flags); }
int brk(void *a) { GUARD(); (void)a; errno = ENOMEM; return -1; }
void *sbrk(intptr_t n) { GUARD(); (void)n; errno = ENOMEM; return (void *)-1; }
void *dlsym(void *h, const char *name) { GUARD(); (void)h; (void)name; return 0; }
int __register_atfork(void (*a)(void), void (*b)(void), void (*c)(void), void *d)
{
    GUARD();
    (void)a, (void)b, (void)c, (void)d;
    return 0;
}
#else
#define ours (int){0}
#endif

enum { WORDS = (48 << 20) / 8 };

int main(void)
{
    is_ready = 1;
    uint64_t *words = malloc(WORDS * sizeof *words);
    uint64_t x = 1, wrong = 0;
    for (int pass = 0; pass < 3; pass++) {
        for (size_t i = 0; i < WORDS; i++) {
            x = (x * 2862933555777941757u + 3037000493u);
            if (pass && words[i] != i / 3 + pass - 1)
                wrong++;
            words[i] = i / 3 + pass;
        }
    }
    printf("%llu words are wrong\n", (unsigned long long)wrong);
    return wrong != 0;
}

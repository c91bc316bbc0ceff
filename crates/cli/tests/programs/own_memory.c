/* memcpy and its like in a library that comes before all others, for threads of the program alone: those of the pager have no
   thread control block that glibc made, and end in a trap. */
#include <stddef.h>

static inline void check_thread(void) {
    const void *self;
    /* glibc's threads find the address of their own block here. */
    __asm__("mov %%fs:0x10, %0" : "=r"(self));
    if (self != __builtin_thread_pointer())
        __builtin_trap();
}

static inline void forward(char *to, const char *from, size_t n) {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

void *memcpy(void *to, const void *from, size_t n) {
    check_thread();
    forward(to, from, n);
    return to;
}

void *memmove(void *to, const void *from, size_t n) {
    check_thread();
    if ((size_t)((char *)to - (const char *)from) >= n) {
        forward(to, from, n);
    } else {
        char *t = (char *)to + n - 1;
        const char *f = (const char *)from + n - 1;
        __asm__ volatile("std; rep movsb; cld" : "+D"(t), "+S"(f), "+c"(n) : : "memory");
    }
    return to;
}

void *memset(void *to, int c, size_t n) {
    check_thread();
    char *t = to;
    __asm__ volatile("rep stosb" : "+D"(t), "+c"(n) : "a"(c) : "memory");
    return to;
}

int memcmp(const void *a, const void *b, size_t n) {
    check_thread();
    const unsigned char *x = a, *y = b;
    for (size_t i = 0; i < n; i++)
        if (x[i] != y[i])
            return x[i] - y[i];
    return 0;
}

int bcmp(const void *a, const void *b, size_t n) { return memcmp(a, b, n); }

size_t strlen(const char *s) {
    check_thread();
    size_t n = 0;
    while (((const volatile char *)s)[n])
        n++;
    return n;
}

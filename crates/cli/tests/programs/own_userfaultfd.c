/* A program with a userfaultfd of its own on memory of which much has left: for missing pages, and for writes. */
#include "pages.h"
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#define LEN (48 * MIB)
#define HALF (LEN / 2)

static int uffd;
static char *missing, *written;
static volatile int faults, writes;

/* Missing pages are filled with seed 9; what is written to is counted. */
static void *serve(void *arg) {
    static char page[PAGE];
    (void)arg;
    for (;;) {
        struct uffd_msg msg;
        if (read(uffd, &msg, sizeof msg) != sizeof msg)
            return NULL;
        unsigned long at = msg.arg.pagefault.address & ~(PAGE - 1);
        if (msg.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP) {
            struct uffdio_writeprotect wp = {{at, PAGE}, 0};
            writes++;
            must(ioctl(uffd, UFFDIO_WRITEPROTECT, &wp) == 0);
            continue;
        }
        size_t number = (at - (unsigned long)missing) / PAGE;
        for (size_t i = 0; i < 512; i++)
            ((uint64_t *)page)[i] = word_of(9, number, i);
        struct uffdio_copy copy = {.dst = at, .src = (unsigned long)page, .len = PAGE};
        faults++;
        must(ioctl(uffd, UFFDIO_COPY, &copy) == 0 || errno == EEXIST);
    }
}

int main(void) {
    char *p = map(LEN);
    missing = p;
    written = p + HALF;
    fill(p, HALF / 2, 1);
    /* The second quarter was never touched, but for zeros. */
    for (size_t i = 0; i < 64; i++)
        ((volatile char *)p)[HALF / 2 + i * PAGE] = 0;
    fill(written, HALF, 2);
    /* Much of it leaves. */
    char *pressure = map(32 * MIB);
    fill(pressure, 32 * MIB, 5);
    must(munmap(pressure, 32 * MIB) == 0);
    int device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
    uffd = device >= 0 ? ioctl(device, USERFAULTFD_IOC_NEW, O_CLOEXEC) : (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    must(uffd >= 0);
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP};
    must(ioctl(uffd, UFFDIO_API, &api) == 0);
    struct uffdio_register one = {{(unsigned long)missing, HALF}, UFFDIO_REGISTER_MODE_MISSING, 0};
    struct uffdio_register other = {{(unsigned long)written, HALF}, UFFDIO_REGISTER_MODE_WP, 0};
    must(ioctl(uffd, UFFDIO_REGISTER, &one) == 0);
    must(ioctl(uffd, UFFDIO_REGISTER, &other) == 0);
    pthread_t thread;
    must(pthread_create(&thread, NULL, serve, NULL) == 0);
    /* What was there is there, and nobody asked for it. */
    check(missing, HALF / 2, 1, "what was there");
    check_zeros(missing + HALF / 2, 64 * PAGE, "zeros that were there");
    must(faults == 0);
    size_t first = HALF / 2 / PAGE + 1024;
    for (size_t page = first; page < first + 16; page++)
        for (size_t i = 0; i < 512; i++)
            must(((uint64_t *)missing)[page * 512 + i] == word_of(9, page, i));
    must(faults == 16);
    struct uffdio_writeprotect wp = {{(unsigned long)written, HALF}, UFFDIO_WRITEPROTECT_MODE_WP};
    must(ioctl(uffd, UFFDIO_WRITEPROTECT, &wp) == 0);
    check(written, HALF, 2, "what is protected");
    for (size_t page = 0; page < 100; page++)
        ((uint64_t *)written)[page * 512] = word_of(2, page, 0);
    must(writes == 100);
    /* Pressure elsewhere: none of it may leave. */
    char *more = map(8 * MIB);
    fill(more, 8 * MIB, 3);
    check(more, 8 * MIB, 3, "other memory");
    check(missing, HALF / 2, 1, "what was there, again");
    must(faults == 16);
    struct uffdio_range range = {(unsigned long)p, HALF}, rest = {(unsigned long)written, HALF};
    must(ioctl(uffd, UFFDIO_UNREGISTER, &range) == 0);
    must(ioctl(uffd, UFFDIO_UNREGISTER, &rest) == 0);
    fill(p, LEN, 4);
    check(p, LEN, 4, "all of it, ours again");
    puts("right");
    return 0;
}

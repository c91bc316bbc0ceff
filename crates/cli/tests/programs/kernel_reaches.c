/* The kernel reaches memory when nobody knows: io_uring whose workers write cold pages to a file and read it into others,
   and AIO. `late`: the rings are made when memory is out, beside threads that read, map and fork. `large`: and what is
   out is more than the limit has room for. `bpf`: addresses that nobody knows of. `lost`: pages are lost.
   Says what was answered. */
#include "beside.h"
#include <linux/aio_abi.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>

static char *from, *to;

static struct io_uring_params params;
static struct io_uring_sqe *entries;
static char *ring;
static int uring, file;

static unsigned *word(unsigned offset) { return (unsigned *)(ring + offset); }

/* One of the kernel's workers does it. */
static void submit(int opcode, char *p, size_t at, size_t count) {
    unsigned tail = *word(params.sq_off.tail), place = tail & *word(params.sq_off.ring_mask);
    entries[place] = (struct io_uring_sqe){.opcode = opcode, .flags = IOSQE_ASYNC, .fd = file, .addr = (size_t)p,
                                           .len = count, .off = at};
    word(params.sq_off.array)[place] = place;
    __atomic_store_n(word(params.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
    must(syscall(SYS_io_uring_enter, uring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1);
    /* It says what it has submitted, whether it was interrupted after that or not. */
    while (__atomic_load_n(word(params.cq_off.tail), __ATOMIC_ACQUIRE) == *word(params.cq_off.head))
        syscall(SYS_io_uring_enter, uring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
    unsigned head = *word(params.cq_off.head);
    must(__atomic_load_n(word(params.cq_off.tail), __ATOMIC_ACQUIRE) == head + 1);
    struct io_uring_cqe *done = (struct io_uring_cqe *)(ring + params.cq_off.cqes);
    int result = done[head & *word(params.cq_off.ring_mask)].res;
    if (result != (int)count) {
        printf("%s of %zu bytes at %zu answers %d\n", opcode == IORING_OP_READ ? "a read" : "a write", count, at, result);
        fflush(stdout);
        _exit(5);
    }
    __atomic_store_n(word(params.cq_off.head), head + 1, __ATOMIC_RELEASE);
}

static void make_ring(void) {
    uring = syscall(SYS_io_uring_setup, 8, &params);
    printf("io_uring_setup: %s\n", uring < 0 ? strerror(errno) : "done");
    if (uring < 0)
        return;
    must(params.features & IORING_FEAT_SINGLE_MMAP);
    size_t bytes = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
    size_t of_array = params.sq_off.array + params.sq_entries * sizeof(unsigned);
    bytes = bytes > of_array ? bytes : of_array;
    ring = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, uring, IORING_OFF_SQ_RING);
    entries = mmap(NULL, params.sq_entries * sizeof *entries, PROT_READ | PROT_WRITE, MAP_SHARED, uring, IORING_OFF_SQES);
    must(ring != MAP_FAILED && (void *)entries != MAP_FAILED);
}

static void by_ring(void) {
    const size_t step = 256 << 10;
    for (size_t at = 0; at < len; at += step)
        submit(IORING_OP_WRITE, from + at, at, step);
    for (size_t at = 0; at < len; at += step)
        submit(IORING_OP_READ, to + at, at, step);
    check(to, len, 2, "read by io_uring");
}

static void by_aio(void) {
    aio_context_t context = 0;
    int answer = syscall(SYS_io_setup, 8, &context);
    printf("io_setup: %s\n", answer < 0 ? strerror(errno) : "done");
    if (answer < 0)
        return;
    for (size_t at = 0; at < len; at += MIB) {
        struct iocb request = {.aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = file, .aio_buf = (size_t)(to + at),
                               .aio_nbytes = MIB, .aio_offset = at};
        struct iocb *requests[] = {&request};
        must(syscall(SYS_io_submit, context, 1, requests) == 1);
        struct io_event event;
        must(syscall(SYS_io_getevents, context, 1, 1, &event, NULL) == 1);
        must(event.res == (long)MIB);
    }
    must(syscall(SYS_io_destroy, context) == 0);
}

/* bpf(2), with addresses in what it is given: what is known only by its answer. */
static int by_bpf(void) {
    union bpf_attr map_of = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = PAGE, .max_entries = 64};
    int array = syscall(SYS_bpf, BPF_MAP_CREATE, &map_of, sizeof map_of);
    if (array < 0)
        return 77;
    kept = map(len);
    from = map(len);
    fill(from, len, 2);
    fill(kept, len, 1);
    munmap(kept, len);
    for (unsigned n = 0; n < 64; n++) {
        union bpf_attr update = {.map_fd = array, .key = (size_t)&n, .value = (size_t)(from + n * PAGE)};
        must(syscall(SYS_bpf, BPF_MAP_UPDATE_ELEM, &update, sizeof update) == 0);
    }
    to = map(PAGE);
    for (unsigned n = 0; n < 64; n++) {
        union bpf_attr look = {.map_fd = array, .key = (size_t)&n, .value = (size_t)to};
        must(syscall(SYS_bpf, BPF_MAP_LOOKUP_ELEM, &look, sizeof look) == 0);
        must(memcmp(to, from + n * PAGE, PAGE) == 0);
    }
    union bpf_attr bad = {.map_fd = array, .key = 16, .value = (size_t)to};
    must(syscall(SYS_bpf, BPF_MAP_LOOKUP_ELEM, &bad, sizeof bad) < 0 && errno == EFAULT);
    check(from, len, 2, "at the end");
    puts("bpf: done");
    return 0;
}

static sigjmp_buf out;

static void on_bus_error(int signal) {
    (void)signal;
    siglongjmp(out, 1);
}

/* Each page reads as it was, or raises a signal: how many do. */
static int lost_pages(const char *p, const char *what) {
    volatile int lost = 0;
    for (volatile size_t page = 0; page < len / PAGE; page++) {
        if (sigsetjmp(out, 1) != 0) {
            lost++;
            continue;
        }
        for (size_t i = 0; i < 512; i++)
            if (((volatile uint64_t *)p)[page * 512 + i] != word_of(1, page, i)) {
                printf("%s: page %zu is neither whole nor lost\n", what, page);
                _exit(3);
            }
    }
    return lost;
}

/* Pages are lost, before and as all of them are to come back. */
static int with_lost(void) {
    struct sigaction action = {.sa_handler = on_bus_error};
    must(sigaction(SIGBUS, &action, NULL) == 0);
    kept = map(len);
    from = map(len);
    fill(kept, len, 1);
    fill(from, len, 2);
    munmap(from, len);
    int before = lost_pages(kept, "before");
    uring = syscall(SYS_io_uring_setup, 8, &params);
    int after = lost_pages(kept, "after");
    must(after >= before);
    puts("whole or lost");
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "bpf") == 0)
        return by_bpf();
    if (argc > 1 && strcmp(argv[1], "lost") == 0)
        return with_lost();
    int is_large = argc > 1 && strcmp(argv[1], "large") == 0, is_late = argc > 1;
    pthread_t threads[3];
    file = memfd_create("file", 0);
    must(file >= 0);
    if (!is_late)
        make_ring();
    kept = map(len);
    from = map(len);
    to = map(len);
    fill(kept, len, 1);
    fill(from, len, 2);
    fill(to, len, 4);
    if (is_late) {
        /* What is out fits now, unless it is to be more. */
        if (!is_large)
            munmap(to, len);
        must(pthread_create(&threads[0], NULL, reads, NULL) == 0);
        must(pthread_create(&threads[1], NULL, maps, NULL) == 0);
        must(pthread_create(&threads[2], NULL, forks, NULL) == 0);
        usleep(50000);
        make_ring();
        if (!is_large) {
            to = map(len);
            fill(to, len, 4);
        }
    }
    if (uring >= 0) {
        in_child("a child of one that has a ring");
        by_ring();
    } else {
        must(write(file, from, len) == (long)len);
    }
    by_aio();
    is_over = 1;
    for (int i = 0; is_late && i < 3; i++)
        must(pthread_join(threads[i], NULL) == 0);
    check(kept, len, 1, "at the end");
    check(from, len, 2, "what was written");
    return 0;
}

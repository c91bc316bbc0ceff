/* Memory that may be executed and written, as some Lisps have for all that they hold: two threads call functions that lie
   in its pages, one of them makes a system call, and write beside them; a forked child does the same. With an argument it stands
   for a second, beside memory that may not be executed. */
#include "pages.h"
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define PAGES (18 * MIB / PAGE)
#define CALLS 300

static unsigned char *heap;
/* What the words beside the functions are to be. */
static uint32_t written[PAGES];

static uint32_t *word_beside(size_t page) {
    return (uint32_t *)(heap + page * PAGE + 64);
}

/* mov NUMBER, %eax; ret. Every eighth: mov SYS_getppid, %eax; syscall; ret. */
static void make_function(size_t page) {
    unsigned char *at = heap + page * PAGE;
    uint32_t number = page % 8 ? page * 2654435761u : SYS_getppid;
    *at++ = 0xb8;
    memcpy(at, &number, 4);
    at += 4;
    if (page % 8 == 0) {
        *at++ = 0x0f;
        *at++ = 0x05;
    }
    *at = 0xc3;
    *word_beside(page) = written[page];
}

static uint32_t call(size_t page) {
    uint32_t (*function)(void) = (void *)(heap + page * PAGE);
    uint32_t answer;
    /* A system call changes these. */
    __asm__ volatile("call *%1" : "=a"(answer) : "r"(function) : "rcx", "r11", "memory");
    return answer;
}

/* Each thread has every other page, so that both change what leaves in one run. */
static void *call_and_write(void *argument) {
    size_t first = (size_t)argument;
    uint64_t random = first + 1;
    for (int i = 0; i < CALLS; i++) {
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        size_t page = (random >> 33) % (PAGES / 2) * 2 + first;
        uint32_t expected = page % 8 ? page * 2654435761u : (uint32_t)getppid();
        must(call(page) == expected);
        must(*word_beside(page) == written[page]);
        *word_beside(page) = ++written[page];
    }
    return NULL;
}

static void call_and_write_all(void) {
    pthread_t other;
    must(pthread_create(&other, NULL, call_and_write, (void *)1) == 0);
    call_and_write((void *)0);
    must(pthread_join(other, NULL) == 0);
    for (size_t page = 0; page < PAGES; page++)
        must(*word_beside(page) == written[page]);
}

int main(int argc, char **argv) {
    (void)argv;
    heap = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(heap != MAP_FAILED);
    fill(heap, PAGES * PAGE, 2);
    for (size_t page = 0; page < PAGES; page++)
        make_function(page);
    if (argc > 1) {
        fill(map(8 * MIB), 8 * MIB, 1);
        sleep(1);
    }
    call_and_write_all();
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        call_and_write_all();
        _exit(0);
    }
    call_and_write_all();
    int status;
    must(waitpid(child, &status, 0) == child && status == 0);
    printf("right\n");
    return 0;
}

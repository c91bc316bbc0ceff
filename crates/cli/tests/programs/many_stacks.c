/* More stacks than there are records of: the nearest is lengthened, across memory that a child inherits. */
#include "pages.h"
#include <sys/wait.h>

#define RECORDS (16 * 1024)
#define HEAP (48 * MIB)
#define BASE ((char *)(1ul << 40))

static void map_stack(char *at) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_FIXED_NOREPLACE;
    must(mmap(at, PAGE, PROT_READ | PROT_WRITE, flags, -1, 0) == at);
}

int main(void) {
    char *heap = BASE + 2 * RECORDS * PAGE;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    must(mmap(heap, HEAP, PROT_READ | PROT_WRITE, flags, -1, 0) == heap);
    fill(heap, HEAP, 1);
    check(heap, HEAP, 1, "before there are stacks");
    for (size_t i = 0; i < RECORDS; i++)
        map_stack(BASE + 2 * i * PAGE);
    map_stack(heap + HEAP + PAGE);
    check(heap, HEAP, 1, "between two stacks");
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        check(heap, HEAP, 1, "the child's, between two stacks");
        _exit(0);
    }
    int status;
    must(waitpid(child, &status, 0) == child);
    must(status == 0);
    check(heap, HEAP, 1, "after the child");
    puts("right");
    return 0;
}

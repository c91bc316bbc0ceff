/* Reads the memory of a child, more of it than there is room for, by process_vm_readv: reads_other all|some. All calls read what the
 * child wrote, or some of them fail (EFAULT) and the others do. Prints "right". */
#include "pages.h"
#include <sys/uio.h>
#include <sys/wait.h>

#define LEN (24 * MIB)

int main(int argc, char **argv) {
    int ready[2], done[2];
    char byte, *p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(argc == 2 && p != MAP_FAILED && pipe(ready) == 0 && pipe(done) == 0);
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        fill(p, LEN, 1);
        must(write(ready[1], "", 1) == 1 && read(done[0], &byte, 1) == 1);
        check(p, LEN, 1, "child");
        _exit(0);
    }
    must(read(ready[0], &byte, 1) == 1);
    static uint64_t words[512];
    long failed = 0;
    for (size_t page = 0; page < LEN / PAGE; page++) {
        struct iovec here = {words, PAGE}, there = {p + page * PAGE, PAGE};
        ssize_t read = process_vm_readv(child, &here, 1, &there, 1, 0);
        failed += read < 0 && errno == EFAULT;
        must(read == (ssize_t)PAGE || (read < 0 && errno == EFAULT));
        for (size_t i = 0; read > 0 && i < 512; i++)
            must(words[i] == word_of(1, page, i));
    }
    int status;
    must(write(done[1], "", 1) == 1 && waitpid(child, &status, 0) == child && status == 0);
    must((failed > 0) == (strcmp(argv[1], "some") == 0));
    printf("right\n");
    return 0;
}

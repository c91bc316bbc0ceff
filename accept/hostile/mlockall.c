// mlockall under a limit: unmanaged it succeeds. (A refusal, or success with the memory resident, would do.)
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
    size_t size = 64 << 20;
    char *m = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int round = 0; round < 3; round++) {
        memset(m, 1 + round, size);
        if (argc < 2 || argv[1][0] == 'c') {
            if (mlockall(MCL_CURRENT))
                perror("mlockall current");
        } else if (mlockall(MCL_FUTURE))
            perror("mlockall future");
        sleep(1);
        for (size_t i = 0; i < size; i += 4096)
            if (m[i] != 1 + round)
                return 2;
        munlockall();
        printf("round %d\n", round);
        fflush(stdout);
    }
    return 0;
}

/* A thread moves memory that is several mappings for the kernel, and one for the program, between two places; children
 * are forked meanwhile. Each has all of it in one of the places. */
#include "pages.h"
#include <pthread.h>
#include <sys/wait.h>

#define LEN (3 * MIB)

static char *places[2];
static int ends[2];
/* What was found, for who reads of a failure. */
static char said[6][80];
static int asked;

static void *move(void *unused) {
    for (int at = 0;; at = !at) {
        char *from = places[at], *to = places[!at];
        must(mremap(from, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
        must(mmap(from, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == from);
    }
    return unused;
}

/* Where a page is not to be read the call fails; where there was none the pager may have memory of its own. */
static int is_there(const char *place, size_t page) {
    uint64_t words[2];
    ssize_t written = write(ends[1], place + page * PAGE, sizeof words);
    if (written != sizeof words) {
        snprintf(said[asked++], sizeof said[0], "%p: write: %zd, %s", place, written, strerror(errno));
        return 0;
    }
    must(read(ends[0], words, sizeof words) == sizeof words);
    snprintf(said[asked++], sizeof said[0], "%p: %lx %lx", place, words[0], words[1]);
    return words[0] == word_of(1, page, 0) && words[1] == word_of(1, page, 1);
}

static int parts(const char *place) {
    int count = 0;
    for (size_t at = 0; at < LEN; at += MIB)
        count += is_there(place, at / PAGE);
    return count;
}

static int look(void) {
    int here = parts(places[0]), there = parts(places[1]);
    if (here + there != 3 || (here && there)) {
        printf("%d parts of three are here, %d there\n", here, there);
        for (int i = 0; i < asked; i++)
            puts(said[i]);
        fflush(stdout);
        return 1;
    }
    check(places[here == 0], LEN, 1, "in a child");
    return 0;
}

int main(int argc, char **argv) {
    int forks = argc > 1 ? atoi(argv[1]) : 100;
    must(pipe(ends) == 0);
    char *other = map(20 * MIB);
    fill(other, 20 * MIB, 2);
    places[0] = map(LEN);
    fill(places[0], LEN, 1);
    must(madvise(places[0] + MIB, MIB, MADV_DONTDUMP) == 0);
    places[1] = mmap(NULL, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(places[1] != MAP_FAILED);
    pthread_t thread;
    must(pthread_create(&thread, NULL, move, NULL) == 0);
    for (int i = 0; i < forks; i++) {
        pid_t pid = fork();
        must(pid >= 0);
        if (pid == 0)
            _exit(look());
        int status;
        must(waitpid(pid, &status, 0) == pid && status == 0);
    }
    puts("right");
    fflush(stdout);
    _exit(0);
}

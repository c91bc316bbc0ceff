/* One thread writes to memory, makes it read-only, reads it, makes it writable again, in pieces and at random, as another does. */
#include "pages.h"
#include <pthread.h>

#define LEN (40 * MIB)
#define PIECE (64 * PAGE)
#define PIECES (LEN / PIECE)

static char *memory;

static void *owner(void *arg) {
    unsigned me = (unsigned)(size_t)arg, random = me + 1;
    uint64_t seeds[PIECES] = {0};
    for (int round = 0; round < 300; round++) {
        random = random * 1103515245 + 12345;
        size_t piece = (random >> 8) % (PIECES / 2) * 2 + me;
        char *p = memory + piece * PIECE;
        if (seeds[piece])
            check(p, PIECE, seeds[piece], "before");
        if (round % 3 == 0)
            must(mprotect(p, PIECE, PROT_NONE) == 0);
        must(mprotect(p, PIECE, PROT_READ | PROT_WRITE) == 0);
        seeds[piece] = random;
        fill(p, PIECE, random);
        must(mprotect(p, PIECE, round % 5 ? PROT_READ : PROT_READ | PROT_EXEC) == 0);
        /* What was written last must not be lost, whenever the pager takes the page. */
        size_t other = (random >> 16) % (PIECES / 2) * 2 + me;
        if (seeds[other]) {
            p = memory + other * PIECE;
            must(mprotect(p, PIECE, PROT_READ | PROT_WRITE) == 0);
            for (size_t page = 0; page < PIECE / PAGE; page++)
                ((uint64_t *)p)[page * 512 + 1]++;
            must(mprotect(p, PIECE, PROT_READ) == 0);
            for (size_t page = 0; page < PIECE / PAGE; page++)
                must(((uint64_t *)p)[page * 512 + 1] == word_of(seeds[other], page, 1) + 1);
            must(mprotect(p, PIECE, PROT_READ | PROT_WRITE) == 0);
            for (size_t page = 0; page < PIECE / PAGE; page++)
                ((uint64_t *)p)[page * 512 + 1]--;
            must(mprotect(p, PIECE, PROT_READ) == 0);
        }
    }
    for (size_t piece = me; piece < PIECES; piece += 2)
        if (seeds[piece])
            check(memory + piece * PIECE, PIECE, seeds[piece], "at the end");
    return NULL;
}

int main(void) {
    memory = map(LEN);
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++)
        must(pthread_create(&threads[i], NULL, owner, (void *)i) == 0);
    for (int i = 0; i < 2; i++)
        must(pthread_join(threads[i], NULL) == 0);
    puts("right");
    return 0;
}

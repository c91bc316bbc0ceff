/* Threads that map, move and unmap memory by raw system calls, as fast as they can: events of them are read in any order. Each moves
 * what it has to an address that the kernel chooses, which is often one that another thread has just left. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 8, BLOCKS = 12, PAGES = 64, PAGE = 4096, ROUNDS = 4000 };

static long wrong[THREADS], refused[THREADS];

static char *fresh(long pages)
{
	char *block = (char *)syscall(SYS_mmap, 0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return block == MAP_FAILED ? 0 : block;
}

static void *run(void *arg)
{
	long me = (long)arg;
	unsigned seed = me + 1;
	char *block[BLOCKS] = {0};
	long mark[BLOCKS] = {0}, pages[BLOCKS] = {0}, next = 1 + me * 1000000;
	for (int round = 0; round < ROUNDS; round++) {
		int i = rand_r(&seed) % BLOCKS;
		if (!block[i]) {
			pages[i] = PAGES;
			block[i] = fresh(pages[i]);
			mark[i] = next++;
			for (long p = 0; p < pages[i]; p++) {
				wrong[me] += *(long *)(block[i] + p * PAGE) != 0;
				*(long *)(block[i] + p * PAGE) = mark[i] * PAGES + p;
			}
			continue;
		}
		/* Longer by a page each time, and back: only a move of all of it makes that possible next to others. */
		long want = rand_r(&seed) % 2 ? PAGES + 1 : PAGES;
		if (want > pages[i]) {
			char *moved = (char *)syscall(SYS_mremap, block[i], pages[i] * PAGE, want * PAGE, MREMAP_MAYMOVE, 0);
			if (moved == MAP_FAILED)
				refused[me]++;
			else
				block[i] = moved, pages[i] = want;
		} else if (want < pages[i]) {
			syscall(SYS_munmap, block[i] + want * PAGE, (pages[i] - want) * PAGE);
			pages[i] = want;
		}
		for (long p = 0; p < PAGES; p += 1 + rand_r(&seed) % 8)
			wrong[me] += *(long *)(block[i] + p * PAGE) != mark[i] * PAGES + p;
		if (rand_r(&seed) % 3 == 0) {
			syscall(SYS_munmap, block[i], pages[i] * PAGE);
			block[i] = 0;
		}
	}
	return 0;
}

int main(void)
{
	pthread_t thread[THREADS];
	long sum = 0, sum_refused = 0;
	/* Known to the pager before the others begin. */
	char *first = malloc(8 << 20);
	for (long at = 0; at < 8 << 20; at += PAGE)
		first[at] = 1;
	for (long i = 0; i < THREADS; i++)
		pthread_create(&thread[i], 0, run, (void *)i);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], 0);
		sum += wrong[i];
		sum_refused += refused[i];
	}
	fprintf(stderr, "%ld moves refused\n", sum_refused);
	printf("%ld pages are not as written, %ld of the first pages differ\n", sum, (long)(first[5 * PAGE] != 1));
	return 0;
}

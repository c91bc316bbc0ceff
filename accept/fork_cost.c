/* Fills memory, forks a few times and prints what fork(2) took: "fork MILLISECONDS". Every page is checked at the end, by a word
   that tells which it is. Usage: fork_cost MEBIBYTES FORKS */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, WORDS = PAGE / 8 };

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

/* A quarter of the words are noise: compresses to a half or so. */
static void fill(uint64_t *page, uint64_t number)
{
	static uint64_t x = 88172645463325252ull;
	for (int i = 0; i < WORDS; i++) {
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		page[i] = i % 4 ? number + i / 16 : x & 0xffffff;
	}
}

int main(int argc, char **argv)
{
	size_t pages = strtoul(argv[1], 0, 10) << 8;
	int forks = argc > 2 ? atoi(argv[2]) : 5, damaged = 0;
	uint64_t *memory = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return perror("mmap"), 1;
	madvise(memory, pages * PAGE, MADV_NOHUGEPAGE);
	for (size_t page = 0; page < pages; page++)
		fill(memory + page * WORDS, page);
	for (int i = 0; i < forks; i++) {
		usleep(300000);
		double start = now();
		pid_t child = fork();
		if (child == 0) {
			size_t page = pages / 3 * (i % 3);
			_exit(memory[page * WORDS + 1] != page);
		}
		printf("fork %.2f\n", now() - start);
		int status = 1;
		waitpid(child, &status, 0);
		damaged += status != 0;
	}
	for (size_t page = 0; page < pages; page++)
		damaged += memory[page * WORDS + 1] != page;
	printf("damaged %d\n", damaged);
	return damaged != 0;
}

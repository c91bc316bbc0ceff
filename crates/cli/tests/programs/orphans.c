/* Fills memory, then forks so that the last process outlives its parents. That one checks every byte, says "whole" or what it found,
   and stays until its standard input ends. Usage: orphans MEBIBYTES once|lingers|daemon|generations|storm */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, WORDS = PAGE / 8, GENERATIONS = 3, STORM = 4 };

static uint64_t *memory;
static size_t pages;

/* A quarter of the words are noise: compresses to a half or so. */
static uint64_t word(uint64_t page, int i)
{
	uint64_t x = page * WORDS + i + 1;
	x ^= x << 13, x ^= x >> 7, x ^= x << 17, x *= 0x9e3779b97f4a7c15;
	return i % 4 ? page : x;
}

static void fill(void)
{
	for (size_t page = 0; page < pages; page++)
		for (int i = 0; i < WORDS; i++)
			memory[page * WORDS + i] = word(page, i);
}

static size_t damaged(void)
{
	size_t found = 0;
	for (size_t page = 0; page < pages; page++)
		for (int i = 0; i < WORDS; i++)
			found += memory[page * WORDS + i] != word(page, i);
	return found;
}

/* In the parent: be gone. */
static void leave(unsigned linger_us)
{
	if (linger_us)
		usleep(linger_us);
	_exit(0);
}

static void outlive(unsigned linger_us)
{
	pid_t child = fork();
	if (child < 0)
		perror("fork"), _exit(1);
	if (child)
		leave(linger_us);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	const char *mode = argv[2];
	pages = strtoul(argv[1], 0, 10) << 8;
	memory = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return perror("mmap"), 1;
	fill();
	if (!strcmp(mode, "once")) {
		outlive(0);
	} else if (!strcmp(mode, "lingers")) {
		outlive(20000);
	} else if (!strcmp(mode, "daemon")) {
		outlive(0);
		setsid();
		outlive(0);
	} else if (!strcmp(mode, "generations")) {
		for (int i = 0; i < GENERATIONS; i++)
			outlive(i * 1000);
	} else if (!strcmp(mode, "storm")) {
		/* Brothers that read while their parent dies, all but one for a moment. */
		for (int i = 0; i < STORM; i++)
			if (fork() == 0) {
				for (size_t page = i; page < pages / 4; page += STORM)
					if (memory[page * WORDS + 1] != page)
						printf("a brother found page %zu damaged\n", page), fflush(stdout);
				_exit(0);
			}
		outlive(0);
	} else {
		return 2;
	}
	size_t found = damaged();
	if (found)
		printf("%zu words damaged\n", found);
	else
		printf("whole %d\n", getpid());
	fflush(stdout);
	while (getchar() != EOF) {
	}
	_exit(found != 0);
}

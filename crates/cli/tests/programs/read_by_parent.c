/* A parent reads the memory of children that it has just forked, as a debugger does; each child checks all of its own then. Prints
   "right", or what was not; "damaged" where a child was. Usage: read_by_parent MEBIBYTES ROUNDS */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, WORDS = PAGE / 8, READ = 40 };

static uint64_t *memory;
static size_t pages;

static uint64_t word(size_t page)
{
	return page * 0x9e3779b97f4a7c15 + 1;
}

static int has_damage(void)
{
	size_t found = 0;
	for (size_t page = 0; page < pages; page++)
		found += memory[page * WORDS] != word(page);
	return found != 0;
}

static size_t read_of(pid_t child, size_t from)
{
	size_t wrong = 0;
	for (int i = 0; i < READ; i++) {
		size_t page = (i * 997 + from) % pages;
		uint64_t got = 0;
		struct iovec here = {&got, sizeof got}, there = {memory + page * WORDS, sizeof got};
		if (process_vm_readv(child, &here, 1, &there, 1, 0) != sizeof got || got != word(page))
			wrong++;
	}
	return wrong;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	pages = strtoul(argv[1], 0, 10) << 8;
	memory = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return perror("mmap"), 1;
	for (size_t page = 0; page < pages; page++) {
		memory[page * WORDS] = word(page);
		for (int i = 1; i < WORDS; i += 4)
			memory[page * WORDS + i] = word(page) * (i + 2);
	}
	int rounds = atoi(argv[2]);
	size_t wrong = 0;
	for (int round = 0; round < rounds; round++) {
		int go[2], status = 1;
		if (pipe(go))
			return perror("pipe"), 1;
		pid_t child = fork();
		if (child < 0)
			return perror("fork"), 1;
		if (child == 0) {
			char byte;
			close(go[1]);
			if (read(go[0], &byte, 1) < 0)
				_exit(2);
			_exit(has_damage());
		}
		close(go[0]);
		usleep(round % 3 * 1000);
		wrong += read_of(child, round * 13);
		close(go[1]);
		waitpid(child, &status, 0);
		if (status)
			return printf("damaged in round %d: %#x\n", round, status), 1;
	}
	if (wrong)
		printf("%zu reads of children were wrong\n", wrong);
	else
		puts("right");
	return 0;
}

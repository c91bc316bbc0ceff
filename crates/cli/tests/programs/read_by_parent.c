/* A parent reads the memory of children that it has just forked, as a debugger does; each child checks all of its own then. Prints
   "right", or how many reads were not; a child prints what it found instead of its memory. Usage: read_by_parent MEBIBYTES ROUNDS */
#include "pages.h"
#include <sys/uio.h>
#include <sys/wait.h>

enum { READ = 40 };

static size_t read_of(pid_t child, uint64_t *memory, size_t pages, size_t from)
{
	size_t wrong = 0;
	for (int i = 0; i < READ; i++) {
		size_t page = (i * 997 + from) % pages;
		uint64_t got = 0;
		struct iovec here = {&got, sizeof got}, there = {memory + page * 512, sizeof got};
		if (process_vm_readv(child, &here, 1, &there, 1, 0) != sizeof got || got != word_of(1, page, 0))
			wrong++;
	}
	return wrong;
}

int main(int argc, char **argv)
{
	must(argc == 3);
	size_t len = strtoul(argv[1], 0, 10) * MIB, wrong = 0;
	uint64_t *memory = map(len);
	fill(memory, len, 1);
	int rounds = atoi(argv[2]);
	for (int round = 0; round < rounds; round++) {
		int go[2], status = 1;
		must(pipe(go) == 0);
		pid_t child = fork();
		must(child >= 0);
		if (child == 0) {
			char byte;
			close(go[1]);
			must(read(go[0], &byte, 1) == 0);
			check(memory, len, 1, "damaged");
			_exit(0);
		}
		close(go[0]);
		usleep(round % 3 * 1000);
		wrong += read_of(child, memory, len / PAGE, round * 13);
		close(go[1]);
		must(waitpid(child, &status, 0) == child && status == 0);
	}
	if (wrong)
		printf("%zu reads of children were wrong\n", wrong);
	else
		puts("right");
	return 0;
}

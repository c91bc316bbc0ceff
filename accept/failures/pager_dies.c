/* Takes the pager's code away from under it, so that its next step is a segmentation fault in its thread, and reads memory that
 * was swapped out. Usage: pager_dies (under uzswap run). The program has a SIGSEGV handler of its own, which must not hide it.
 * Ends with 3 if any page reads back different; it should be killed before it comes to the end. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGES = 12000, WORDS = 512 };

static void on_sigsegv(int number)
{
	(void)number;
}

/* By a system call of its own: libc's mprotect is the program's business, and the agent's library is what changes. */
static int take_code_away(void)
{
	char line[600];
	int taken = 0;
	FILE *maps = fopen("/proc/self/maps", "r");

	while (maps && fgets(line, sizeof(line), maps)) {
		unsigned long start, end;
		char rights[5];

		if (strstr(line, "/agent-") && sscanf(line, "%lx-%lx %4s", &start, &end, rights) == 3 && rights[2] == 'x')
			taken += syscall(SYS_mprotect, start, end - start, PROT_NONE) == 0;
	}
	return taken;
}

int main(void)
{
	volatile uint64_t *memory = mmap(NULL, PAGES * 4096UL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int different = 0;

	signal(SIGSEGV, on_sigsegv);
	for (uint64_t i = 0; i < PAGES; i++)
		for (int word = 0; word < WORDS; word++)
			memory[i * WORDS + word] = i * 31 + word + 1;
	sleep(1);
	printf("mappings of the pager's code taken: %d\n", take_code_away());
	fflush(stdout);
	for (uint64_t i = 0; i < PAGES; i++)
		different += memory[i * WORDS + 9] != i * 31 + 10;
	printf("different %d\n", different);
	return different ? 3 : 0;
}

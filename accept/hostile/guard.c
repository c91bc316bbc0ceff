/* Guard regions (MADV_GUARD_INSTALL, Linux 6.13) over memory that is swapped out: whoever touches them gets SIGSEGV, and once removed
 * they read as zeros. And among memory that was never touched: they stay when it is, in sequence. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 64 << 20, PAGE = 4096, INSTALL = 102, REMOVE = 103 };

static sigjmp_buf out;

static void caught(int signal)
{
	siglongjmp(out, signal);
}

static int touch(volatile char *at)
{
	int caught = sigsetjmp(out, 1);
	if (!caught)
		*at;
	return caught;
}

/* Every eighth page of fresh memory is a guard; the others are touched in sequence. Returns how many guards are still there. */
static long guards_in_fresh_memory(void)
{
	long kept = 0;
	char *memory = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* A pager has seen it by then. */
	usleep(200000);
	for (long at = 7 * PAGE; at < SIZE; at += 8 * PAGE)
		madvise(memory + at, PAGE, INSTALL);
	for (long at = 0; at < SIZE; at += PAGE)
		if (at / PAGE % 8 != 7)
			memory[at] = 1;
	for (long at = 7 * PAGE; at < SIZE; at += 8 * PAGE)
		kept += touch(memory + at) == SIGSEGV;
	munmap(memory, SIZE);
	return kept;
}

int main(void)
{
	long wrong = 0, zeros = 0, signals = 0;
	unsigned char *memory = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	signal(SIGSEGV, caught);
	signal(SIGBUS, caught);
	for (long at = 0; at < SIZE; at += PAGE)
		memset(memory + at, 1 + at / PAGE % 100, PAGE / 2);
	/* Every third block of 32 pages. */
	for (long at = 0; at < SIZE; at += 96 * PAGE)
		if (madvise(memory + at, 32 * PAGE, INSTALL)) {
			perror("MADV_GUARD_INSTALL");
			return 0;
		}
	for (long at = 0; at < SIZE; at += PAGE) {
		if (at / PAGE % 96 < 32)
			signals += touch((char *)memory + at) == SIGSEGV;
		else
			wrong += memory[at] != 1 + at / PAGE % 100;
	}
	for (long at = 0; at < SIZE; at += 96 * PAGE)
		madvise(memory + at, 32 * PAGE, REMOVE);
	for (long at = 0; at < SIZE; at += PAGE) {
		if (at / PAGE % 96 < 32)
			zeros += memory[at] == 0;
		else
			wrong += memory[at] != 1 + at / PAGE % 100;
	}
	printf("%ld signals, %ld pages of zeros, %ld wrong; of fresh memory %ld\n", signals, zeros, wrong, guards_in_fresh_memory());
	return 0;
}

/* One thread reads swapped-out memory in sequence, so that much is brought along with each fault; another puts guards on every eighth
 * page just ahead of it. Each guard has to be there afterwards. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { SIZE = 64 << 20, PAGE = 4096, PAGES = SIZE / PAGE, PASSES = 12, AHEAD = 64, INSTALL = 102, REMOVE = 103 };

static sigjmp_buf out;
static unsigned char *memory;
static atomic_long reading;
static atomic_long wrong;

static void caught(int signal)
{
	siglongjmp(out, signal);
}

static int touch(volatile unsigned char *at)
{
	int caught = sigsetjmp(out, 1);
	if (!caught)
		*at;
	return caught;
}

static unsigned char mark(long page)
{
	return 1 + page % 100;
}

static void *read_in_order(void *arg)
{
	(void)arg;
	for (long page = 0; page < PAGES; page++) {
		atomic_store(&reading, page);
		if (page % 8 != 7)
			wrong += memory[page * PAGE] != mark(page);
	}
	atomic_store(&reading, PAGES);
	return 0;
}

int main(void)
{
	long lost = 0;
	memory = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	signal(SIGSEGV, caught);
	signal(SIGBUS, caught);
	for (int pass = 0; pass < PASSES; pass++) {
		pthread_t reader;
		for (long page = 0; page < PAGES; page++)
			memset(memory + page * PAGE, mark(page), PAGE / 2);
		atomic_store(&reading, 0);
		pthread_create(&reader, 0, read_in_order, 0);
		for (long page = 7; page < PAGES; page += 8) {
			while (atomic_load(&reading) + AHEAD < page)
				;
			if (madvise(memory + page * PAGE, PAGE, INSTALL)) {
				perror("MADV_GUARD_INSTALL");
				return 0;
			}
		}
		pthread_join(reader, 0);
		for (long page = 7; page < PAGES; page += 8) {
			lost += touch(memory + page * PAGE) != SIGSEGV;
			madvise(memory + page * PAGE, PAGE, REMOVE);
			wrong += memory[page * PAGE] != 0;
		}
	}
	printf("%ld guards lost, %ld wrong\n", lost, (long)wrong);
	return 0;
}

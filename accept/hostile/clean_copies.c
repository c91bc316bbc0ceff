/* Memory is gone over in sequence again and again, so that what is loaded keeps its compressed copy as long as nobody writes to it; and
 * one page in 61 is written to, in every way that there is: by this thread, by another one just behind, by the kernel, by
 * children, where it was moved to, after its protection was changed. Every page has to hold what was written last. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 64 << 20, PAGE = 4096, PAGES = SIZE / PAGE, WORDS = PAGE / 8, ROUNDS = 3, EVERY = 61, MERGEABLE = 12 };

static unsigned char *memory;
static unsigned version[PAGES];
static atomic_long reached;
static long wrong;
static int pipes[2], self;

static void contents(unsigned long *words, long page)
{
	unsigned long seed = page * 2654435761ul + version[page] * 40503ul;
	for (int i = 0; i < WORDS; i++)
		words[i] = i % 64 ? seed : seed * (i + 1);
}

static void check(long page)
{
	unsigned long words[WORDS];
	contents(words, page);
	wrong += memcmp(memory + page * PAGE, words, PAGE) != 0;
}

enum way { STORE, READ, VM_WRITE, PROC_MEM, WAYS };

static void put(long page, enum way way)
{
	unsigned long words[WORDS];
	unsigned char *at = memory + page * PAGE;
	version[page]++;
	contents(words, page);
	struct iovec from = { words, PAGE }, to = { at, PAGE };
	switch (way) {
	case READ:
		if (write(pipes[1], words, PAGE) != PAGE || read(pipes[0], at, PAGE) != PAGE)
			wrong++;
		break;
	case VM_WRITE:
		if (process_vm_writev(getpid(), &from, 1, &to, 1, 0) != PAGE)
			memcpy(at, words, PAGE);
		break;
	case PROC_MEM:
		if (pwrite(self, words, PAGE, (long)at) != PAGE)
			memcpy(at, words, PAGE);
		break;
	default:
		memcpy(at, words, PAGE);
	}
}

/* Check all pages in order; write to one in EVERY. */
static void go_over(int offset, enum way way)
{
	for (long page = 0; page < PAGES; page++) {
		check(page);
		if (page % EVERY == offset % EVERY)
			put(page, way);
	}
}

static void *write_behind(void *arg)
{
	for (long page = (long)arg; page < PAGES; page += EVERY) {
		while (atomic_load(&reached) <= page)
			usleep(1);
		put(page, STORE);
	}
	return 0;
}

static void with_a_writer_behind(long offset)
{
	pthread_t writer;
	atomic_store(&reached, 0);
	pthread_create(&writer, 0, write_behind, (void *)offset);
	for (long page = 0; page < PAGES; page++) {
		check(page);
		atomic_store(&reached, page + 1);
	}
	pthread_join(writer, 0);
}

static void with_a_child(int offset)
{
	int status = 0;
	int child = fork();
	if (!child) {
		wrong = 0;
		go_over(offset, STORE);
		go_over(offset + 1, STORE);
		go_over(offset + 2, READ);
		_exit(wrong != 0);
	}
	/* The pipe is the child's meanwhile. */
	go_over(offset, STORE);
	go_over(offset + 7, STORE);
	waitpid(child, &status, 0);
	wrong += status != 0;
	go_over(offset + 8, READ);
}

int main(void)
{
	memory = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	self = open("/proc/self/mem", O_RDWR);
	if (pipe(pipes) || self < 0)
		return 1;
	for (long page = 0; page < PAGES; page++)
		put(page, STORE);
	for (int round = 0; round < ROUNDS; round++) {
		for (int way = 0; way < WAYS; way++)
			go_over(round * 5 + way * 11, way);
		with_a_writer_behind(round * 7 + 1);
		with_a_child(round * 3 + 2);
		unsigned char *other = mmap(0, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		go_over(round + 40, STORE);
		memory = mremap(memory, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, other);
		go_over(round + 50, STORE);
		mprotect(memory + SIZE / 4, SIZE / 16, PROT_READ);
		for (long page = 0; page < PAGES; page++)
			check(page);
		mprotect(memory + SIZE / 4, SIZE / 16, PROT_READ | PROT_WRITE);
		go_over(round + 20, VM_WRITE);
		go_over(round + 21, STORE);
		if (round == 1)
			madvise(memory, SIZE, MERGEABLE);
		printf("round %d: %ld wrong\n", round, wrong);
	}
	return wrong != 0;
}

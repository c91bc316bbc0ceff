/* The first thread ends, by pthread_exit or by the raw exit call; the others go on: they map memory, write and check it, fork children
 * that check it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEMORY (24ul << 20)
#define WORDS (MEMORY / sizeof(unsigned long))
#define ROUNDS 2

static const char *how;
static int started_late;
static pthread_barrier_t leader_goes;

static unsigned long word(unsigned long i, unsigned long seed)
{
	return i / 37 + (seed << 32);
}

static unsigned long *fill(unsigned long seed)
{
	unsigned long *memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (unsigned long i = 0; i < WORDS; i++)
		memory[i] = word(i, seed);
	return memory;
}

static void check(const unsigned long *memory, unsigned long seed, const char *who)
{
	for (unsigned long i = 0; i < WORDS; i++)
		if (memory[i] != word(i, seed)) {
			fprintf(stderr, "%s: word %lu differs\n", who, i);
			abort();
		}
}

static void *go_on(void *arg)
{
	unsigned long *memory = started_late ? NULL : fill(1);

	(void)arg;
	pthread_barrier_wait(&leader_goes);
	usleep(100000);
	if (!memory)
		memory = fill(1);
	for (int round = 0; round < ROUNDS; round++) {
		unsigned long *more = fill(2 + round);
		int status;
		pid_t child;

		check(memory, 1, "thread");
		child = fork();
		if (child == 0) {
			check(memory, 1, "child");
			check(more, 2 + round, "child");
			_exit(3);
		}
		if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 3)
			abort();
		check(more, 2 + round, "thread");
		munmap(more, MEMORY);
	}
	puts("done");
	fflush(stdout);
	return NULL;
}

/* HOW: p or r, how the first thread ends (pthread_exit, raw exit with status 5); l: the memory is mapped only then. */
int main(int argc, char **argv)
{
	pthread_t thread;

	how = argc > 1 ? argv[1] : "p";
	started_late = strchr(how, 'l') != NULL;
	pthread_barrier_init(&leader_goes, NULL, 2);
	pthread_create(&thread, NULL, go_on, NULL);
	pthread_barrier_wait(&leader_goes);
	if (strchr(how, 'r'))
		syscall(SYS_exit, 5);
	pthread_exit(NULL);
}

/* One thread forks by system calls of its own while another forks through libc, whose children fork again: each child has its own
   memory. Prints "right", or what was not. Usage: raw_forks MEBIBYTES ROUNDS */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, WORDS = PAGE / 8, DROPPED = 16 };

static volatile uint64_t *memory;
static size_t pages;
static volatile int is_over;
static int raw_status;

static int has_damage(void)
{
	size_t found = 0;
	for (size_t page = 0; page < pages; page++)
		found += memory[page * WORDS] != page * 0x9e3779b97f4a7c15 + 1;
	return found != 0;
}

/* It lives a while: the other fork is under way meanwhile. */
static void be_raw_child(void)
{
	struct timespec time = {0, 30000000};
	syscall(SYS_nanosleep, &time, 0);
	int is_wrong = has_damage();
	syscall(SYS_madvise, memory, DROPPED * PAGE, MADV_DONTNEED);
	for (int page = 0; page < DROPPED; page++)
		is_wrong |= memory[page * WORDS] != 0;
	syscall(SYS_exit_group, is_wrong);
}

static void *fork_raw(void *unused)
{
	while (!is_over) {
		int status = 1;
		pid_t child = syscall(SYS_fork);
		if (child == 0)
			be_raw_child();
		if (child > 0 && waitpid(child, &status, 0) == child)
			raw_status |= status;
	}
	return unused;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	pages = strtoul(argv[1], 0, 10) << 8;
	memory = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return perror("mmap"), 1;
	for (size_t page = 0; page < pages; page++)
		memory[page * WORDS] = page * 0x9e3779b97f4a7c15 + 1;
	pthread_t thread;
	if (pthread_create(&thread, 0, fork_raw, 0))
		return 1;
	int all = 0;
	for (int round = atoi(argv[2]); round > 0; round--) {
		int status = 1;
		pid_t child = fork();
		if (child == 0) {
			int is_wrong = has_damage();
			pid_t grandchild = fork();
			if (grandchild == 0)
				_exit(has_damage());
			if (grandchild < 0 || waitpid(grandchild, &status, 0) < 0)
				_exit(2);
			_exit(is_wrong || status);
		}
		if (child > 0)
			waitpid(child, &status, 0);
		all |= status;
	}
	is_over = 1;
	pthread_join(thread, 0);
	if (all || raw_status || has_damage())
		return printf("statuses %#x, raw %#x\n", all, raw_status), 1;
	puts("right");
	return 0;
}

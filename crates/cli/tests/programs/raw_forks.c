/* One thread forks by system calls of its own while another forks through libc, whose children fork again: each child has its own
   memory. QUICK other threads make raw children that end at once. Prints "right", or what was not.
   Usage: raw_forks MEBIBYTES ROUNDS QUICK */
#include "pages.h"
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

static char *memory;
static size_t len;
static int is_over;

/* It lives a while: the other fork is under way meanwhile. */
static void be_raw_child(void)
{
	struct timespec time = {0, 10000000};
	syscall(SYS_nanosleep, &time, 0);
	check(memory, len, 1, "of a raw child");
	syscall(SYS_madvise, memory, MIB, MADV_DONTNEED);
	syscall(SYS_nanosleep, &time, 0);
	check_zeros(memory, MIB, "dropped by a raw child");
	syscall(SYS_exit_group, 0);
}

static void *fork_raw(void *is_quick)
{
	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
		int status = 1;
		pid_t child = syscall(SYS_fork);
		if (child == 0) {
			if (!is_quick)
				be_raw_child();
			syscall(SYS_exit_group, 0);
		}
		must(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	}
	return 0;
}

int main(int argc, char **argv)
{
	must(argc == 4);
	int quick = atoi(argv[3]);
	must(quick < 8);
	len = strtoul(argv[1], 0, 10) * MIB;
	memory = map(len);
	fill(memory, len, 1);
	pthread_t threads[8];
	for (int i = 0; i <= quick; i++)
		must(pthread_create(&threads[i], 0, fork_raw, i > 0 ? &is_over : 0) == 0);
	for (int round = atoi(argv[2]); round > 0; round--) {
		int status = 1;
		pid_t child = fork();
		if (child == 0) {
			check(memory, len, 1, "of a child");
			pid_t grandchild = fork();
			if (grandchild == 0) {
				check(memory, len, 1, "of a grandchild");
				_exit(0);
			}
			must(grandchild > 0 && waitpid(grandchild, &status, 0) == grandchild);
			_exit(status != 0);
		}
		must(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	}
	__atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
	for (int i = 0; i <= quick; i++)
		pthread_join(threads[i], 0);
	check(memory, len, 1, "of the parent");
	puts("right");
	return 0;
}

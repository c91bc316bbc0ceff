/* Forks through libc fail, again and again, while other threads fork by system calls of their own: those children live until the
   last fork has failed, and have what their parent had. Prints "right", or what was not.
   What fills OTHERS comes after it, and goes before.
   Usage: fails_fork MEBIBYTES OTHERS CHILDREN */
#include "pages.h"
#include "filter.h"
#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

static char *memory;
static size_t len;
static int *is_over;
static int made;

/* clone(2) fails, with which libc forks; fork(2) does not. */
static void refuse_clone(void)
{
	filter(SYS_clone, SECCOMP_RET_ERRNO | EAGAIN);
}

static void *fork_raw(void *unused)
{
	pid_t child = syscall(SYS_fork);
	if (child == 0) {
		struct timespec time = {0, 1000000};
		while (!__atomic_load_n(is_over, __ATOMIC_RELAXED))
			syscall(SYS_nanosleep, &time, 0);
		check(memory, len, 1, "of a raw child");
		syscall(SYS_exit_group, 0);
	}
	must(child > 0);
	__atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);
	(void)unused;
	return 0;
}

int main(int argc, char **argv)
{
	must(argc == 4);
	len = strtoul(argv[1], 0, 10) * MIB;
	size_t others = strtoul(argv[2], 0, 10) * MIB;
	int children = atoi(argv[3]);
	is_over = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(is_over != MAP_FAILED);
	memory = map(len);
	fill(memory, len, 1);
	char *newer = map(others);
	fill(newer, others, 2);
	must(munmap(newer, others) == 0);
	refuse_clone();
	while (__atomic_load_n(&made, __ATOMIC_RELAXED) < children) {
		pthread_t thread;
		must(pthread_create(&thread, 0, fork_raw, 0) == 0);
		for (int i = 0; i < 8; i++)
			must(fork() == -1 && errno == EAGAIN);
		pthread_join(thread, 0);
	}
	__atomic_store_n(is_over, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < children; i++) {
		int status = 1;
		must(waitpid(-1, &status, 0) > 0 && status == 0);
	}
	check(memory, len, 1, "of the parent");
	puts("right");
	return 0;
}

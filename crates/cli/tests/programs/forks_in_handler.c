/* A signal comes while a process forks, and its handler forks as well, or jumps out of it. Then all goes on as before, and each
   child has its parent's memory. Prints "right", or what was not.
   "start": the signal comes so many microseconds after the process began to grow.
   Usage: forks_in_handler MEBIBYTES ROUNDS fork|_Fork|jump|start */
#include "pages.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

extern pid_t _Fork(void);

static char *memory;
static size_t len;
static const char *way;
static volatile sig_atomic_t may_jump;
static sigjmp_buf place;

static void end(pid_t child)
{
	int status = 1;
	must(child > 0);
	while (waitpid(child, &status, 0) != child)
		must(errno == EINTR);
	must(status == 0);
}

static void handle(int signal)
{
	int before = errno;
	(void)signal;
	if (*way == 'j') {
		if (may_jump)
			siglongjmp(place, 1);
		return;
	}
	pid_t child = *way == '_' ? _Fork() : fork();
	if (child == 0) {
		check(memory, len, 1, "of a handler's child");
		_exit(0);
	}
	end(child);
	errno = before;
}

/* Once, so soon. */
static void ring(long us)
{
	struct itimerval timer = {.it_value.tv_usec = us};
	must(setitimer(ITIMER_REAL, &timer, 0) == 0);
}

static int grow(int us)
{
	ring(us);
	char *more = map(6 * MIB);
	memset(more, 1, 6 * MIB);
	ring(0);
	puts("right");
	return 0;
}

int main(int argc, char **argv)
{
	must(argc == 4);
	len = strtoul(argv[1], 0, 10) * MIB;
	way = argv[3];
	memory = map(len + PAGE);
	fill(memory, len, 1);
	struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
	must(sigaction(SIGALRM, &action, 0) == 0);
	if (*way == 's')
		return grow(atoi(argv[2]));
	for (int round = 0; round < atoi(argv[2]); round++) {
		ring(1 + round * 7 % 600);
		/* A child that is jumped away from ends by itself. */
		if (sigsetjmp(place, 1) != 0)
			continue;
		may_jump = 1;
		pid_t child = *way == '_' ? _Fork() : fork();
		may_jump = 0;
		if (child == 0) {
			check(memory, len, 1, "of a child");
			_exit(0);
		}
		end(child);
	}
	ring(0);
	puts("right");
	return 0;
}

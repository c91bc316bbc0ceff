/* Forks under a filter of its system calls: "waitid" ends a process that calls that, "clone" raises SIGSYS, whose handler forks
   by another call. Prints "right", or what was not.
   Usage: filtered_fork MEBIBYTES waitid|clone */
#include "pages.h"
#include "filter.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <ucontext.h>

static void emulate(int signal, siginfo_t *info, void *context)
{
	ucontext_t *where = context;
	(void)signal;
	if (info->si_syscall == SYS_clone)
		where->uc_mcontext.gregs[REG_RAX] = syscall(SYS_fork);
}

int main(int argc, char **argv)
{
	must(argc == 3);
	size_t len = strtoul(argv[1], 0, 10) * MIB;
	char *memory = map(len + PAGE);
	fill(memory, len, 1);
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	if (*argv[2] == 'c') {
		struct sigaction action = {.sa_sigaction = emulate, .sa_flags = SA_SIGINFO};
		must(sigaction(SIGSYS, &action, 0) == 0);
		filter(SYS_clone, SECCOMP_RET_TRAP);
	} else {
		filter(SYS_waitid, SECCOMP_RET_KILL_PROCESS);
	}
	for (int round = 0; round < 5; round++) {
		int status = 1;
		pid_t child = fork();
		if (child == 0) {
			check(memory, len, 1, "of a child");
			syscall(SYS_exit_group, 0);
		}
		must(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	}
	check(memory, len, 1, "of the parent");
	puts("right");
	fflush(stdout);
	syscall(SYS_exit_group, 0);
}

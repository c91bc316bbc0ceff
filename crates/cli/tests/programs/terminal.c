/* What a shell does for a job in a terminal: terminal interrupt|stop|nothing CMD. CMD runs in its own process group, in the foreground of
 * a new terminal, and prints "ready". Then ^C is typed, or ^Z, or nothing. The job goes on when it has stopped. Prints what CMD printed
 * since, whether it stopped, and its status. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

/* The leader of the terminal's session. Its stdout is not the terminal. */
static int shell(char **cmd)
{
	int status;
	pid_t job = fork();

	if (!job) {
		setpgid(0, 0);
		tcsetpgrp(0, getpid());
		signal(SIGTTOU, SIG_DFL);
		dup2(0, 1);
		execvp(*cmd, cmd);
		_exit(127);
	}
	setpgid(job, job);
	tcsetpgrp(0, job);
	waitpid(job, &status, WUNTRACED);
	while (WIFSTOPPED(status)) {
		dprintf(1, "stopped\n");
		kill(-job, SIGCONT);
		waitpid(job, &status, WUNTRACED);
	}
	dprintf(1, "status %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	return 0;
}

int main(int argc, char **argv)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY), is_typed = 0;
	static char said[65536];
	size_t length = 0;
	struct termios modes;
	pid_t leader;

	if (argc < 3 || grantpt(master) || unlockpt(master))
		return 2;
	leader = fork();
	if (!leader) {
		int terminal;

		setsid();
		terminal = open(ptsname(master), O_RDWR);
		ioctl(terminal, TIOCSCTTY, 0);
		tcgetattr(terminal, &modes);
		modes.c_lflag &= ~ECHO;
		tcsetattr(terminal, TCSANOW, &modes);
		dup2(terminal, 0);
		signal(SIGTTOU, SIG_IGN);
		_exit(shell(argv + 2));
	}
	for (;;) {
		ssize_t n = read(master, said + length, sizeof(said) - 1 - length);
		char *ready;

		if (n <= 0)
			break;
		length += n;
		ready = strstr(said, "ready");
		if (ready && !is_typed) {
			is_typed = 1;
			if (strcmp(argv[1], "nothing") == 0)
				continue;
			length = 0;
			memset(said, 0, sizeof(said));
			usleep(200000);
			if (write(master, strcmp(argv[1], "stop") ? "\003" : "\032", 1) != 1)
				return 3;
		}
	}
	waitpid(leader, NULL, 0);
	printf("%s", said);
	return 0;
}

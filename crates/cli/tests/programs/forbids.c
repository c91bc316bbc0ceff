/* Runs CMD where the system forbids something: forbids mdwe|text|trace CMD. "mdwe": memory that is writable and executable (PR_SET_MDWE);
 * "text": making memory executable, as an older systemd's MemoryDenyWriteExecute does by a filter of system calls; "trace": ptrace(2).
 * 99: it cannot be. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SET_MDWE 65
#define EXECUTABLE 4

static int set(unsigned short length, struct sock_filter *code)
{
	struct sock_fprog program = { length, code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int filter_tracing(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	return set(sizeof(code) / sizeof(*code), code);
}

static int filter(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, EXECUTABLE, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	return set(sizeof(code) / sizeof(*code), code);
}

static int forbid(const char *what)
{
	if (!strcmp(what, "mdwe"))
		return prctl(SET_MDWE, 1, 0, 0, 0);
	return strcmp(what, "trace") ? filter() : filter_tracing();
}

int main(int argc, char **argv)
{
	if (argc < 3 || forbid(argv[1]))
		return 99;
	execvp(argv[2], argv + 2);
	return 98;
}

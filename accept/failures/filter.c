/* Installs a system call filter for all threads of the process (SECCOMP_FILTER_FLAG_TSYNC), the pager's among them, and reads memory
 * that was swapped out. Usage: filter early|late kill|errno SYSCALL (under uzswap run): before memory is mapped or after.
 * Ends with 3 if any page reads different. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGES = 8000, WORDS = 512 };

static void install(const char *action, unsigned number)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, strcmp(action, "kill") ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_KILL_THREAD),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(*code), code };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program))
		perror("seccomp");
}

int main(int argc, char **argv)
{
	volatile uint64_t *memory;
	int early = argc > 3 && !strcmp(argv[1], "early"), different = 0;

	if (argc < 4)
		return 2;
	if (early)
		install(argv[2], atoi(argv[3]));
	memory = mmap(NULL, PAGES * 4096UL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (uint64_t i = 0; i < PAGES; i++)
		for (int word = 0; word < WORDS; word++)
			memory[i * WORDS + word] = i * 31 + word + 1;
	if (!early)
		install(argv[2], atoi(argv[3]));
	for (uint64_t i = 0; i < PAGES; i++)
		different += memory[i * WORDS + 9] != i * 31 + 10;
	printf("program: different %d\n", different);
	return different ? 3 : 0;
}

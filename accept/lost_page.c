/* Fills a mapping with noise, cuts the pager's swap file short and counts the pages that are whole, that raise SIGBUS and
 * that read different. Usage: lost_page (under uzswap run). */
#define _GNU_SOURCE
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGES = 40000, WORDS = 512 };

static sigjmp_buf back;

static void on_sigbus(int number)
{
	(void)number;
	siglongjmp(back, 1);
}

static uint64_t noise(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

/* The swap file is nameless and open in the descriptor table of the pager's threads only. */
static int cut_swap_files(void)
{
	int cut = 0;
	struct dirent *task, *fd;
	DIR *tasks = opendir("/proc/self/task");

	while (tasks && (task = readdir(tasks))) {
		char path[600];
		DIR *fds;

		snprintf(path, sizeof(path), "/proc/self/task/%s/fd", task->d_name);
		fds = opendir(path);
		while (fds && (fd = readdir(fds))) {
			char link[300] = "";
			struct stat st;

			snprintf(path, sizeof(path), "/proc/self/task/%s/fd/%s", task->d_name, fd->d_name);
			if (readlink(path, link, sizeof(link) - 1) > 0 && strstr(link, "(deleted)") &&
			    stat(path, &st) == 0 && st.st_size > 1 << 20)
				cut += truncate(path, 0) == 0;
		}
		if (fds)
			closedir(fds);
	}
	if (tasks)
		closedir(tasks);
	return cut;
}

int main(void)
{
	static volatile int whole, lost, different;
	uint64_t *memory = mmap(NULL, PAGES * 4096UL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t x;

	for (uint64_t i = 0; i < PAGES; i++) {
		x = i + 1;
		for (int word = 0; word < WORDS; word++)
			memory[i * WORDS + word] = noise(&x);
	}
	signal(SIGBUS, on_sigbus);
	int cut = cut_swap_files();
	for (volatile uint64_t i = 0; i < PAGES; i += 40) {
		if (sigsetjmp(back, 1)) {
			lost++;
			continue;
		}
		int same = 1;
		x = i + 1;
		for (int word = 0; word < WORDS; word++)
			same &= memory[i * WORDS + word] == noise(&x);
		whole += same;
		different += !same;
	}
	printf("files cut %d, whole %d, lost %d, different %d\n", cut, whole, lost, different);
	return !(cut && whole && lost && !different);
}

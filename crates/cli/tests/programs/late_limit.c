/* late_limit FILE: puts FILE where stderr was, leaves itself little address space, and maps memory: a pager finds no room any more. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	unsigned long pages = 0, length = 16 << 20;
	FILE *statm = fopen("/proc/self/statm", "r");
	struct rlimit limit;
	void *memory;

	if (argc < 2 || fscanf(statm, "%lu", &pages) != 1)
		return 2;
	close(2);
	if (open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0600) != 2)
		return 3;
	limit.rlim_cur = limit.rlim_max = (pages << 12) + 2 * length;
	setrlimit(RLIMIT_AS, &limit);
	memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return 4;
	memset(memory, 1, length);
	puts("went on");
	return 0;
}

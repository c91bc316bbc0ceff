/* Memory that the program has from the start, without mapping any (.bss), is managed like any other. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { SIZE = 64 << 20, PAGE = 4096 };

static char bss[SIZE];

int main(void)
{
	long bad = 0;
	for (long at = 0; at < SIZE; at += PAGE)
		memset(bss + at, 1 + at / PAGE % 100, 2000);
	for (long at = 0; at < SIZE; at += PAGE)
		bad += bss[at + 1999] != 1 + at / PAGE % 100 || bss[at + 2000] != 0;
	char *text = 0;
	static char line[256];
	long resident = 0;
	FILE *status = fopen("/proc/self/status", "r");
	while (fgets(line, sizeof line, status))
		sscanf(line, "RssAnon: %ld", &resident);
	fprintf(stderr, "%ld KiB resident\n", resident);
	printf("%ld pages are not as written\n", bad);
	return 0;
}

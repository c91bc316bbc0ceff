/* A program that replaces itself again and again, most of its memory swapped out and a thread at work on it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 32 << 20, PAGE = 4096 };

static volatile char *memory;

static void *work(void *unused)
{
	for (unsigned at = 1;; at = at * 1103515245u + 12345u)
		memory[at % (SIZE / PAGE) * PAGE + 100]++;
	return unused;
}

int main(int argc, char **argv)
{
	int left = argc > 1 ? atoi(argv[1]) : 15;
	long bad = 0;
	memory = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (long at = 0; at < SIZE; at += PAGE)
		memset((char *)memory + at, 1 + at / PAGE % 100, 50);
	pthread_t thread;
	pthread_create(&thread, 0, work, 0);
	for (long at = 0; at < SIZE; at += PAGE)
		bad += memory[at + 49] != 1 + at / PAGE % 100;
	if (bad || left == 0)
		return printf("%ld pages are not as written\n", bad), fflush(stdout), 0;
	char next[16];
	snprintf(next, sizeof next, "%d", left - 1);
	execl(argv[0], argv[0], next, (char *)0);
	return 1;
}

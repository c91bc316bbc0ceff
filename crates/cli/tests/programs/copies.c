/* A parent and its child write to what they share at a time, by themselves and through system calls; some of these have waited since before the fork.
   Or the child writes over all of it, as fast as it can. Prints "right". Usage: copies [overwrite] MEBIBYTES */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, WORDS = PAGE / 8, WAYS = 7, WAITERS = 3, PIECE = 3 * PAGE, SEEN = 7 };

static uint64_t *memory;
static size_t pages, waiting_at;
static int file, piped[2], watched;

#define MUST(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "%d: %s (line %d): %m\n", getpid(), #what, __LINE__); \
			_exit(1); \
		} \
	} while (0)

static uint64_t word(size_t page, size_t i, uint64_t who)
{
	return (page * WORDS + i) * 0x9e3779b97f4a7c15 + who;
}

static char *at(size_t page)
{
	return (char *)(memory + page * WORDS);
}

/* Write what `who` has for a page, in one of several ways. */
static void change(size_t page, uint64_t who, int sockets[2])
{
	uint64_t wanted[WORDS];
	for (size_t i = 0; i < WORDS; i++)
		wanted[i] = word(page, i, who);
	char *to = at(page), *from = (char *)wanted;
	off_t offset = (off_t)who * PAGE;
	struct iovec two[] = {{to, 1000}, {to + 1000, PAGE - 1000}};
	switch (page % WAYS) {
	case 0:
		memcpy(to, from, PAGE);
		break;
	case 1:
		MUST(pwrite(file, from, PAGE, offset) == PAGE && pread(file, to, PAGE, offset) == PAGE);
		break;
	case 2:
		MUST(pwrite(file, from, PAGE, offset) == PAGE && preadv(file, two, 2, offset) == PAGE);
		break;
	case 3:
		MUST(send(sockets[0], from, PAGE, 0) == PAGE && recv(sockets[1], to, PAGE, MSG_WAITALL) == PAGE);
		break;
	case 4:
		MUST(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, to + 8) == 0);
		memcpy(to, from, PAGE);
		break;
	case 5:
		/* futex_wake, of a word that other processes might wait for: the kernel wants a page that it could write to. */
		MUST(syscall(454, to, ~0u, 1, 2) == 0 || errno == ENOSYS);
		memcpy(to, from, PAGE);
		break;
	default:
		MUST(syscall(SYS_getrandom, to, 100, 0) == 100);
		memcpy(to, from, PAGE);
	}
}

/* Change one page in two, then see that all are what they should be. */
static void change_all(uint64_t who)
{
	int sockets[2];
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
	for (size_t n = 0; n < pages; n++)
		if (n * 7 % pages % 2 == who % 2 && n * 7 % pages < waiting_at)
			change(n * 7 % pages, who, sockets);
	for (size_t page = 0; page < waiting_at; page++)
		for (size_t i = 0; i < WORDS; i++)
			MUST(memory[page * WORDS + i] == word(page, i, page % 2 == who % 2 ? who : 0));
}

static void overwrite(void)
{
	pid_t child = fork();
	MUST(child >= 0);
	if (!child) {
		memset(memory, 1, pages * PAGE);
		_exit(0);
	}
	int status;
	MUST(waitpid(child, &status, 0) == child && status == 0);
	for (size_t page = 0; page < pages; page++)
		for (size_t i = 0; i < WORDS; i++)
			MUST(memory[page * WORDS + i] == word(page, i, 0));
	puts("right");
}

/* Wait for the pipe, the answer in what is shared. */
static void *wait_for_it(void *arg)
{
	size_t which = (size_t)arg;
	char *to = at(waiting_at + which * PIECE / PAGE);
	if (which == 0) {
		MUST(read(piped[0], to, PIECE) == SEEN && !memcmp(to, "waited", SEEN));
	} else if (which == 1) {
		MUST(epoll_wait(watched, (struct epoll_event *)to, 4, -1) == 1 && ((struct epoll_event *)to)->data.u64 == SEEN);
	} else {
		struct pollfd *fds = (struct pollfd *)to;
		*fds = (struct pollfd){watched, POLLIN, 0};
		MUST(poll(fds, 1, -1) == 1 && fds->revents == POLLIN);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pages = strtoul(argv[argc - 1], NULL, 0) * 256 + 1;
	waiting_at = pages - WAITERS * PIECE / PAGE;
	memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	file = memfd_create("copies", 0);
	int told[2];
	MUST(memory != MAP_FAILED && file >= 0 && pipe(piped) == 0 && pipe(told) == 0 && (watched = epoll_create1(0)) >= 0);
	MUST(epoll_ctl(watched, EPOLL_CTL_ADD, told[0], &(struct epoll_event){EPOLLIN, {.u64 = SEEN}}) == 0);
	for (size_t page = 0; page < pages; page++)
		for (size_t i = 0; i < WORDS; i++)
			memory[page * WORDS + i] = word(page, i, 0);
	if (argc > 2)
		return overwrite(), 0;
	pthread_t waiters[WAITERS];
	for (size_t i = 0; i < WAITERS; i++)
		MUST(pthread_create(&waiters[i], NULL, wait_for_it, (void *)i) == 0);
	usleep(50000);
	pid_t child = fork();
	MUST(child >= 0);
	change_all(child ? 1 : 2);
	if (!child)
		_exit(0);
	MUST(write(piped[1], "waited", SEEN) == SEEN && write(told[1], "", 1) == 1);
	for (size_t i = 0; i < WAITERS; i++)
		MUST(pthread_join(waiters[i], NULL) == 0);
	int *status = (int *)at(0);
	MUST(waitpid(child, status, 0) == child && *status == 0);
	puts("right");
}

/* A thread writes memory, most of it swapped out, to a file and into a pipe, while another thread ends the process. What was written until
   then is what was in memory: whole pages of it, never zeros. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, SIZE = 32 << 20, ROUNDS = 12 };

static char *memory;
static int out;

static void fill(char *page, int number)
{
	for (int i = 0; i < PAGE; i += 8)
		snprintf(page + i, 9, "%06x%02x", number & 0xffffff, (i / 8) & 0xff);
}

static void *writer(void *unused)
{
	for (long at = 0; at < SIZE;) {
		long n = write(out, memory + at, 1 << 20);
		if (n <= 0)
			break;
		at += n;
	}
	return 0;
}

/* Bytes that are zero; there are none in memory. */
static long zeros(const char *bytes, long n)
{
	long count = 0;
	for (long i = 0; i < n; i++)
		count += bytes[i] == 0;
	return count;
}

static long check(int fd)
{
	static char buffer[1 << 20];
	long n, bad = 0;
	while ((n = read(fd, buffer, sizeof buffer)) > 0)
		bad += zeros(buffer, n);
	return bad;
}

static void end_while_writing(int to, int round)
{
	memory = mmap(0, SIZE + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (long at = 0; at < SIZE; at += PAGE)
		fill(memory + at, at / PAGE);
	out = to;
	pthread_t thread;
	pthread_create(&thread, 0, writer, 0);
	usleep(3000 + round * 5333 % 60000);
	_exit(0);
}

int main(void)
{
	long in_file = 0, in_socket = 0;
	for (int round = 0; round < ROUNDS; round++) {
		char name[] = "/var/tmp/exit_in_write.XXXXXX";
		int file = mkstemp(name), pair[2];
		unlink(name);
		if (fork() == 0)
			end_while_writing(file, round);
		wait(0);
		lseek(file, 0, SEEK_SET);
		in_file += check(file);
		close(file);
		socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
		if (fork() == 0) {
			close(pair[0]);
			end_while_writing(pair[1], round);
		}
		close(pair[1]);
		in_socket += check(pair[0]);
		close(pair[0]);
		wait(0);
	}
	printf("zeros in the file %ld, in the socket %ld\n", in_file, in_socket);
	return 0;
}

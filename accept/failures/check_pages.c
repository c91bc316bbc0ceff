/* Fills a mapping, reads and rewrites it again and again in another order, and counts the pages that are whole, that raise
 * SIGBUS and that read different. Usage: check_pages PAGES ROUNDS [FORKS]
 * A page's number and how often it was written decide its bytes: noise, noise in part, text, one word. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 512 };

static sigjmp_buf back;
static uint64_t *memory;
static uint8_t *written, *lost;
static long pages, whole, losses, different;

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

static uint64_t word_of(long page, unsigned version, int at, uint64_t *x)
{
	switch (page % 5) {
	case 0:
		return noise(x);
	case 1:
		return at % 2 ? noise(x) : 7;
	case 2:
		return at % 8 ? 0x2065687420656874u + version : (uint64_t)page;
	case 3:
		return at % 32 ? 0 : noise(x);
	default:
		return version % 2 ? 0 : 0x0101010101010101 * (version + 1);
	}
}

static void check(long page)
{
	uint64_t x = page * 977 + written[page] + 1;
	volatile int same = 1;

	if (lost[page])
		return;
	if (sigsetjmp(back, 1)) {
		lost[page] = 1;
		losses++;
		return;
	}
	for (int at = 0; at < WORDS; at++)
		same &= memory[page * WORDS + at] == word_of(page, written[page], at, &x);
	whole += same;
	different += !same;
}

static void fill(long page)
{
	uint64_t x;

	if (lost[page])
		return;
	if (sigsetjmp(back, 1)) {
		lost[page] = 1;
		losses++;
		return;
	}
	written[page]++;
	x = page * 977 + written[page] + 1;
	for (int at = 0; at < WORDS; at++)
		memory[page * WORDS + at] = word_of(page, written[page], at, &x);
}

/* Every page once, in an order that is another in each round. */
static void round_of(int number)
{
	static const long strides[] = { 1, 7919, 104729, 15485863 };
	long stride = strides[number % 4];

	for (long i = 0; i < pages; i++) {
		long page = (i * stride + number) % pages;

		check(page);
		if (page % 3 == number % 3)
			fill(page);
	}
}

static int report(const char *who)
{
	printf("%s: whole %ld lost %ld different %ld\n", who, whole, losses, different);
	fflush(stdout);
	return different != 0;
}

/* What is known of the pages must not be lost with them, so it is in memory that is not managed. */
static uint8_t *own(const uint8_t *theirs)
{
	uint8_t *ours = mmap(NULL, pages, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (theirs)
		memcpy(ours, theirs, pages);
	return ours;
}

/* The child checks what it inherited, and goes on by itself. */
static int fork_and_check(int number)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		written = own(written);
		lost = own(lost);
		whole = losses = different = 0;
		round_of(number + 1);
		_exit(report("child"));
	}
	waitpid(child, &status, 0);
	if (WIFSIGNALED(status))
		printf("child: killed by %d\n", WTERMSIG(status));
	return WIFEXITED(status) && WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[2]) : 3, forks = argc > 3 ? atoi(argv[3]) : 0, bad = 0;

	pages = argc > 1 ? atol(argv[1]) : 12000;
	signal(SIGBUS, on_sigbus);
	memory = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	written = own(NULL);
	lost = own(NULL);
	for (long page = 0; page < pages; page++)
		fill(page);
	for (int number = 1; number <= rounds; number++) {
		round_of(number);
		if (number <= forks)
			bad |= fork_and_check(number);
	}
	return report("program") | bad;
}

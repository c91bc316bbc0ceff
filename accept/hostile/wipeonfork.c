/* Memory that children get empty (MADV_WIPEONFORK), some of it swapped out, is empty in them and whole in the parent; what was
   wiped once and is not any more is inherited. Memory that is given up lazily (MADV_FREE) and written again holds what was written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, PAGE = 4096 };

static char *fill(size_t len, int tag)
{
	char *at = mmap(0, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; i < len; i += PAGE)
		memset(at + i, 0, PAGE), at[i] = tag, at[i + 99] = i / PAGE;
	return at;
}

static int count(const char *at, size_t len, int tag)
{
	int n = 0;
	for (size_t i = 0; i < len; i += PAGE)
		n += at[i] == tag;
	return n;
}

int main(void)
{
	setbuf(stdout, 0);
	char *secret = fill(16 * MIB, 7), *kept = fill(16 * MIB, 8), *lazy = fill(16 * MIB, 9);
	madvise(secret, 16 * MIB, MADV_WIPEONFORK);
	madvise(kept, 16 * MIB, MADV_WIPEONFORK);
	madvise(kept, 16 * MIB, MADV_KEEPONFORK);
	char *other = fill(32 * MIB, 10);
	for (int i = 0; i < 3; i++) {
		if (fork() == 0) {
			printf("child: secret %d of its parent's, %d empty; kept %d; other %d\n", count(secret, 16 * MIB, 7),
			       count(secret, 16 * MIB, 0), count(kept, 16 * MIB, 8), count(other, 32 * MIB, 10));
			memset(secret, 3, MIB);
			if (fork() == 0) {
				printf("grandchild: %d empty\n", count(secret, 16 * MIB, 0));
				_exit(0);
			}
			wait(0);
			_exit(0);
		}
		wait(0);
	}
	printf("parent: secret %d\n", count(secret, 16 * MIB, 7));
	for (int i = 0; i < 4; i++) {
		madvise(lazy, 16 * MIB, MADV_FREE);
		for (size_t page = 0; page < 16 * MIB; page += PAGE)
			lazy[page] = 11 + i;
		printf("lazy %d other %d\n", count(lazy, 16 * MIB, 11 + i), count(other, 32 * MIB, 10));
	}
	return 0;
}

/* The only thread ends by the raw exit call, after its memory was written and read. */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MEMORY (64ul << 20)

int main(int argc, char **argv)
{
	unsigned long *memory = malloc(MEMORY);

	for (unsigned long i = 0; i < MEMORY / sizeof *memory; i++)
		memory[i] = i / 7;
	for (unsigned long i = 0; i < MEMORY / sizeof *memory; i += 512)
		if (memory[i] != i / 7)
			return 1;
	syscall(SYS_exit, argc > 1 ? atoi(argv[1]) : 7);
}

/* Runs a command and samples, every 10 ms, the sum of Pss_Anon of all its descendants, the command itself left out (the launcher).
   A sample during which a process came, went, gave up its memory (it ends, and is listed until it has) or replaced its image is taken again at once: what
   was read of its relatives before that is a share of pages that are theirs alone after it. Such samples that stay torn are counted as doubtful.
   The kernel goes through a process's pages one after the other, for milliseconds, and counts one that moves meanwhile twice. So of what it counts no more
   is taken than the process has by RssAnon, before or after.
   Usage: pss_sampler OUT LIMIT-IN-KIB CMD...; OUT gets KEY=VALUE lines. The status is that of CMD. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 2048, INTERVAL_US = 10000, AGAIN = 5, TOP = 12 };

struct process {
	int pid;
	long pss, anon, rss;
	unsigned long image;
};

struct sample {
	int n;
	long sum, anon;
	struct process of[MOST];
};

static int launcher;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static ssize_t slurp(const char *path, char *into, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t n = read(fd, into, size - 1);
	close(fd);
	into[n < 0 ? 0 : n] = 0;
	return n;
}

static void list(int pid, int *pids, int *n)
{
	char path[320], text[16384];
	snprintf(path, sizeof path, "/proc/%d/task", pid);
	DIR *tasks = opendir(path);
	if (!tasks)
		return;
	for (struct dirent *task; (task = readdir(tasks));) {
		if (task->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "/proc/%d/task/%s/children", pid, task->d_name);
		if (slurp(path, text, sizeof text) <= 0)
			continue;
		char *at = text, *end;
		for (long child; (child = strtol(at, &end, 10)), end != at && *n < MOST; at = end) {
			if (child != launcher)
				pids[(*n)++] = child;
			list(child, pids, n);
		}
	}
	closedir(tasks);
}

static long field(const char *text, const char *name)
{
	const char *at = strstr(text, name);
	return at ? strtol(at + strlen(name), 0, 10) : 0;
}

/* Where the stack of its program begins: of another image somewhere else, and nowhere once the memory is given up. */
static unsigned long image(int pid)
{
	char path[64], text[1024];
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	char *at = slurp(path, text, sizeof text) > 0 ? strrchr(text, ')') : 0;
	/* The 26 fields behind the name. */
	for (int i = 0; at && i < 26; i++)
		at = strchr(at + 1, ' ');
	return at ? strtoul(at, 0, 10) : 0;
}

static long rss_anon(int pid)
{
	char path[64], text[4096];
	snprintf(path, sizeof path, "/proc/%d/status", pid);
	return slurp(path, text, sizeof text) > 0 ? field(text, "\nRssAnon:") : 0;
}

static int take(struct sample *s)
{
	static int before[MOST], after[MOST];
	int n = 0, m = 0;
	char path[64], text[4096];
	list(getpid(), before, &n);
	s->n = n, s->sum = s->anon = 0;
	for (int i = 0; i < n; i++) {
		s->of[i] = (struct process){before[i], 0, 0, 0, image(before[i])};
		snprintf(path, sizeof path, "/proc/%d/smaps_rollup", before[i]);
		long most = rss_anon(before[i]);
		if (slurp(path, text, sizeof text) <= 0)
			continue;
		s->of[i].pss = field(text, "\nPss_Anon:");
		s->of[i].anon = field(text, "\nAnonymous:");
		long then = rss_anon(before[i]);
		most = then > most ? then : most;
		if (s->of[i].anon > most && most > 0)
			s->of[i].pss = s->of[i].pss * most / s->of[i].anon;
		s->of[i].rss = field(text, "\nRss:");
		s->sum += s->of[i].pss;
		s->anon += s->of[i].anon;
	}
	for (int i = 0; i < n; i++)
		if (image(before[i]) != s->of[i].image)
			return 0;
	list(getpid(), after, &m);
	return n == m && !memcmp(before, after, n * sizeof *before);
}

static int by_size(const void *a, const void *b)
{
	return *(const long *)a < *(const long *)b ? -1 : *(const long *)a > *(const long *)b;
}

static int by_pss(const void *a, const void *b)
{
	return ((const struct process *)b)->pss > ((const struct process *)a)->pss ? 1 : -1;
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	long limit = strtol(argv[2], 0, 10), samples = 0, over = 0, doubtful = 0, room = 1 << 20;
	long *sums = malloc(room * sizeof *sums);
	static struct sample sample, most;
	double began = now(), last = began, gap = 0, took = 0, most_at = 0;
	int status = 0, ended = 0;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	launcher = fork();
	if (launcher == 0) {
		execvp(argv[3], argv + 3);
		perror(argv[3]);
		_exit(127);
	}
	if (nice(-10) == -1)
		errno = 0;
	FILE *trace = getenv("TRACE") ? fopen(getenv("TRACE"), "w") : 0;
	while (!ended) {
		double start = now();
		int sure = 0;
		for (int again = 0; again < AGAIN && !sure; again++)
			sure = take(&sample);
		double end = now();
		took = end - start > took ? end - start : took;
		gap = start - last > gap ? start - last : gap;
		last = start;
		doubtful += !sure;
		if (sure && samples < room) {
			sums[samples++] = sample.sum;
			over += sample.sum > limit + limit * 3 / 100;
			if (sample.sum > most.sum)
				most = sample, most_at = start - began;
			if (trace) {
				fprintf(trace, "%.3f %ld %ld", start - began, sample.sum, sample.anon);
				for (int i = 0; i < sample.n; i++)
					fprintf(trace, " %d:%ld/%ld", sample.of[i].pid, sample.of[i].pss, sample.of[i].anon);
				fputc('\n', trace);
			}
		}
		for (int s, pid; (pid = waitpid(-1, &s, WNOHANG)) != 0;) {
			if (pid == launcher)
				status = s, launcher = 0;
			if (pid < 0) {
				ended = 1;
				break;
			}
		}
		double rest = INTERVAL_US - (now() - start) * 1e6;
		if (rest > 0)
			usleep(rest);
	}
	FILE *out = fopen(argv[1], "w");
	if (!out)
		return perror(argv[1]), 2;
	qsort(sums, samples, sizeof *sums, by_size);
	fprintf(out, "samples=%ld\ndoubtful=%ld\nover=%ld\ngap_ms=%.1f\ntook_ms=%.1f\nseconds=%.1f\n", samples, doubtful, over, gap * 1e3,
		took * 1e3, now() - began);
	fprintf(out, "most_kib=%ld\nmost_ratio=%.3f\nmost_at=%.3f\np99_ratio=%.3f\nmedian_ratio=%.3f\nprocesses=%d\n", most.sum,
		(double)most.sum / limit, most_at, samples ? (double)sums[samples * 99 / 100] / limit : 0,
		samples ? (double)sums[samples / 2] / limit : 0, most.n);
	qsort(most.of, most.n, sizeof *most.of, by_pss);
	fprintf(out, "of=");
	for (int i = 0; i < most.n && i < TOP; i++)
		fprintf(out, "%ld/%ld ", most.of[i].pss, most.of[i].anon);
	fprintf(out, "\n");
	fclose(out);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A program whose memory has a file's pages for contents, and needs more of it than
 * there may be.
 *
 *	footprint FILE MIB TOUCHES SEED [MM_STAT | STORED_PAGES POOL_SIZE]
 *
 * Fills MIB with the file's pages, the file again and again, then touches TOUCHES
 * pages at random; one in four it changes. A touch of a page that is not in memory
 * is timed from before it to behind it, with all that the kernel does to make room
 * for the page. Every page that is touched is checked by its sum.
 *
 * One line of NAME=NUMBER is printed. Exit code 1: a wrong page; 2: cannot be done.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
#define WORDS (PAGE / 8)
#define CHUNK (1 << 20)
/* First touches that are timed, while there still is room. */
#define FRESH 2000

struct run {
	unsigned char *memory;
	uint64_t pages;
	uint64_t *sum;		/* of each page; in memory that stays */
	uint32_t *fault_ns;	/* of each fault; the same */
	uint64_t faults;
	double tick_ns;
};

static void fail(const char *what, const char *name)
{
	fprintf(stderr, "# %s %s\n", what, name);
	exit(2);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* In user-mode Linux a system call takes as long as what is measured. */
static uint64_t ticks(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	return (uint64_t)(seconds() * 1e9);
#endif
}

static double tick_length_ns(void)
{
	double began = seconds(), now;
	uint64_t first = ticks(), last;

	do {
		now = seconds();
		last = ticks();
	} while (now - began < 0.05);
	return (now - began) * 1e9 / (double)(last - first);
}

static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static uint64_t sum_of(const unsigned char *page)
{
	const uint64_t *words = (const uint64_t *)page;
	uint64_t sum = 0;

	for (int i = 0; i < WORDS; i++)
		sum = (sum << 7 | sum >> 57) ^ words[i];
	return sum;
}

/* Memory that is never swapped out. */
static void *kept(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED || mlock(memory, size))
		fail("cannot have", "memory that stays");
	return memory;
}

static double fill(struct run *run, const char *path)
{
	unsigned char *chunk = NULL;
	int fd = open(path, O_RDONLY | O_DIRECT);
	off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
	uint64_t in_chunk = CHUNK / PAGE, fresh = 0;

	if (size < CHUNK || posix_memalign((void **)&chunk, PAGE, CHUNK) ||
	    mlock(chunk, CHUNK))
		fail("cannot read", path);
	size -= size % CHUNK;
	for (uint64_t page = 0; page < run->pages; page++) {
		const unsigned char *from = chunk + page % in_chunk * PAGE;
		uint64_t began, ended;

		if (page % in_chunk == 0 &&
		    pread(fd, chunk, CHUNK, (off_t)(page * PAGE) % size) != CHUNK)
			fail("cannot read", path);
		began = ticks();
		run->memory[page * PAGE] = *from;
		ended = ticks();
		if (page < FRESH)
			fresh += ended - began;
		memcpy(run->memory + page * PAGE, from, PAGE);
		run->sum[page] = sum_of(from);
	}
	close(fd);
	return (double)fresh * run->tick_ns / FRESH;
}

static void touch(struct run *run, uint64_t page, uint64_t change)
{
	unsigned char *bytes = run->memory + page * PAGE, there;
	volatile unsigned char *first = bytes;
	uint64_t began, ended;

	if (mincore(bytes, PAGE, &there))
		fail("cannot ask", "where a page is");
	began = ticks();
	(void)*first;
	ended = ticks();
	if (!(there & 1))
		run->fault_ns[run->faults++] =
			(uint32_t)((double)(ended - began) * run->tick_ns);
	if (sum_of(bytes) != run->sum[page]) {
		printf("# WRONG BYTES in page %llu\n", (unsigned long long)page);
		exit(1);
	}
	if (change % 4)
		return;
	((uint64_t *)bytes)[change / 4 % WORDS] += 8;
	run->sum[page] = sum_of(bytes);
}

static int by_size(const void *a, const void *b)
{
	uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;

	return (one > other) - (one < other);
}

static unsigned long long number(FILE *file)
{
	unsigned long long value;

	if (!file || fscanf(file, "%llu", &value) != 1)
		fail("cannot read", "what is held");
	return value;
}

/*
 * What swap holds: a device's orig_data_size compr_data_size mem_used_total, or zswap's two
 * files of one number.
 */
static void print_held(char **paths, int count)
{
	FILE *file = fopen(paths[0], "r");
	unsigned long long pages = number(file), bytes;

	if (count > 1) {
		fclose(file);
		file = fopen(paths[1], "r");
	} else {
		pages /= PAGE;
		number(file);
	}
	bytes = number(file);
	fclose(file);
	printf(" held_pages=%llu pool_bytes=%llu", pages, bytes);
	if (pages)
		printf(" page_bytes=%.1f", (double)bytes / (double)pages);
}

/* The time that so many in a thousand faults are at or below. */
static uint32_t at(const struct run *run, uint64_t thousandths)
{
	uint64_t above = run->faults - run->faults * thousandths / 1000;

	return run->faults ? run->fault_ns[run->faults - 1 - (above ? above - 1 : 0)] : 0;
}

static void print_result(struct run *run, char **held, int count)
{
	double all = 0;
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	for (uint64_t i = 0; i < run->faults; i++)
		all += run->fault_ns[i];
	qsort(run->fault_ns, run->faults, sizeof(*run->fault_ns), by_size);
	printf(" faults=%llu major=%ld mean_ns=%.0f p99_ns=%u p999_ns=%u",
	       (unsigned long long)run->faults, usage.ru_majflt,
	       run->faults ? all / (double)run->faults : 0, at(run, 990), at(run, 999));
	if (count > 0)
		print_held(held, count);
	printf("\n");
}

int main(int argc, char **a)
{
	uint64_t touches, random;
	struct run run = { 0 };
	double began;

	if (argc < 5)
		fail("usage:", "see the head of footprint.c");
	run.pages = strtoull(a[2], NULL, 0) << 8;
	touches = strtoull(a[3], NULL, 0);
	random = strtoull(a[4], NULL, 0) * 0x9e3779b97f4a7c15ull | 1;
	run.tick_ns = tick_length_ns();
	run.sum = kept(run.pages * sizeof(*run.sum));
	run.fault_ns = kept((touches + 1) * sizeof(*run.fault_ns));
	run.memory = mmap(NULL, run.pages * PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (run.memory == MAP_FAILED || run.pages < FRESH)
		fail("no memory for", "the pages");
	madvise(run.memory, run.pages * PAGE, MADV_NOHUGEPAGE);

	began = seconds();
	printf("fresh_ns=%.0f", fill(&run, a[1]));
	printf(" fill_s=%.3f", seconds() - began);
	began = seconds();
	for (uint64_t n = 0; n < touches; n++) {
		uint64_t page = next(&random) % run.pages;

		touch(&run, page, next(&random));
	}
	printf(" touch_s=%.3f", seconds() - began);
	print_result(&run, a + 5, argc - 5);
	return 0;
}

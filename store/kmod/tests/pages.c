// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Pages with known contents, for tests of a block device or of swap in a guest.
 *
 *	pages fill DEVICE PAGES SEED DUPLICATES%
 *	pages verify DEVICE PAGES SEED DUPLICATES%
 *	pages random DEVICE PAGES SECONDS SEED JOBS [errors|faults]
 *	pages parts DEVICE PAGES SECONDS SEED JOBS
 *	pages swap MIB ROUNDS SEED DUPLICATES% [STEP STRIDE COMMAND]
 *	pages nth-file PATH TEXT FIRST
 *	pages nth-page DEVICE PAGE SEED
 *	pages put PATH TEXT
 *	pages lease PATH
 *	pages read PATH...
 *	pages user PROGRAM ARGUMENT...
 *	pages changed DEVICE PAGES
 *	pages load MODULE-FILE MODULE DEVICE ARGUMENTS
 *
 * What stands in a page follows from a number, its content; so a model needs to
 * keep that number only. `random` keeps one for each page and writes, reads and
 * discards; where errors are expected, a page may have its old or its new
 * contents after a failed write, and nothing else; with faults, the kernel's own
 * injection is let loose on the jobs. `swap` with STEP has all swapped out at last, runs
 * COMMAND, and touches each STRIDEth page, an odd STEP apart. `nth-*` makes the first, the
 * second, the third ... allocation of an operation fail until none is left.
 * `lease` keeps a file from whoever opens it, until it is ended. `read` reads files
 * over and over, until it is ended.
 * `user` runs a program as somebody who is not root.
 * `changed` reads pages into a buffer that a second process changes all the while, as
 * the owner of a page under O_DIRECT can: what arrives is his business, but it is no
 * error. `load` loads a module whose first, second, third ... allocation fails, while
 * a second process opens the device as soon as it is there: a load that fails may
 * leave nobody with a device open.
 * Exit code 1: a wrong byte, or what the test forbids; 2: cannot be done.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The kernel's; its build says where it is another. */
#ifndef PAGE
#define PAGE 4096
#endif
#define WORDS (PAGE / 8)
#define RUN_MAX 16
/* An operation and a load have fewer allocations; more is a test that does not end. */
#define NTH_MAX 4000
#define LOAD_NTH_MAX 20000

struct job {
	int fd;
	uint64_t first, count;
	uint64_t *content, *other;
	uint64_t random;
	int errors_allowed;
	int faults;
	uint64_t writes, reads, discards, failed;
	unsigned char *buffer;
};

static void fail(const char *what, const char *about)
{
	printf("# %s %s: %s\n", what, about, strerror(errno));
	exit(2);
}

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static uint64_t next(uint64_t *state)
{
	*state = mix(*state);
	return *state;
}

/* Content 0 is zeros; of the others a quarter of each kind. */
static void make_page(uint64_t *words, uint64_t content)
{
	uint64_t state = content, word = mix(content);

	if (!content) {
		memset(words, 0, PAGE);
		return;
	}
	for (int i = 0; i < WORDS; i++) {
		switch (content % 4) {
		case 0:		/* does not compress */
			words[i] = next(&state);
			break;
		case 1:		/* a quarter random, then zeros */
			words[i] = i < WORDS / 4 ? next(&state) : 0;
			break;
		case 2:		/* the same everywhere */
			words[i] = word;
			break;
		default:	/* words that come again */
			words[i] = (next(&state) % 61) * 0x0101010101010101ull;
		}
	}
	if (content % 4 != 2)
		words[WORDS / 2] = content;
}

/* The page's content; so many percent of the pages share few contents. */
static uint64_t content_of(uint64_t seed, uint64_t page, unsigned int duplicates)
{
	uint64_t hash = mix(seed ^ mix(page + 1));

	if (hash % 100 < duplicates)
		return mix(seed) % 100000 + 4 + (hash >> 8) % 64;
	return (hash | 1ull << 62) + 4;
}

static int is_content(const void *bytes, uint64_t content)
{
	static uint64_t words[WORDS];

	make_page(words, content);
	return !memcmp(bytes, words, PAGE);
}

static void *aligned(size_t size)
{
	void *buffer;

	if (posix_memalign(&buffer, PAGE, size))
		fail("no memory for", "a buffer");
	return buffer;
}

static int open_device(const char *path)
{
	int fd = open(path, O_RDWR | O_DIRECT);

	if (fd < 0)
		fail("cannot open", path);
	return fd;
}

static void check(uint64_t page, uint64_t content, const unsigned char *bytes)
{
	uint64_t words[WORDS];
	int at = 0;

	if (is_content(bytes, content))
		return;
	make_page(words, content);
	while (at < PAGE - 1 && bytes[at] == ((unsigned char *)words)[at])
		at++;
	printf("# WRONG BYTE: page %llu, byte %d: %02x and not %02x (content %llx)\n",
	       (unsigned long long)page, at, bytes[at], ((unsigned char *)words)[at],
	       (unsigned long long)content);
	exit(1);
}

static int fill(char **a, int write_it)
{
	int fd = open_device(a[0]);
	uint64_t pages = strtoull(a[1], NULL, 0), seed = strtoull(a[2], NULL, 0);
	unsigned int duplicates = atoi(a[3]);
	unsigned char *buffer = aligned(PAGE);

	for (uint64_t page = 0; page < pages; page++) {
		uint64_t content = content_of(seed, page, duplicates);

		if (write_it) {
			make_page((uint64_t *)buffer, content);
			if (pwrite(fd, buffer, PAGE, page * PAGE) != PAGE)
				fail("cannot write", a[0]);
			continue;
		}
		if (pread(fd, buffer, PAGE, page * PAGE) != PAGE)
			fail("cannot read", a[0]);
		check(page, content, buffer);
	}
	return 0;
}

/* Whether it could be read. */
static int do_read(struct job *job, uint64_t page, uint64_t count)
{
	ssize_t size = count * PAGE;

	job->reads++;
	if (pread(job->fd, job->buffer, size, (job->first + page) * PAGE) != size) {
		job->failed++;
		if (!job->errors_allowed)
			fail("cannot read", "pages");
		return 0;
	}
	for (uint64_t i = 0; i < count; i++) {
		const unsigned char *bytes = job->buffer + i * PAGE;

		if (is_content(bytes, job->content[page + i])) {
			job->other[page + i] = job->content[page + i];
		} else if (is_content(bytes, job->other[page + i])) {
			job->content[page + i] = job->other[page + i];
		} else {
			check(job->first + page + i, job->content[page + i], bytes);
		}
	}
	return 1;
}

/*
 * After a failed write a page has one of two contents. Which one has to be known
 * before the next change, or there would be three. False: it cannot be known now.
 */
static int settle(struct job *job, uint64_t page, uint64_t count)
{
	for (uint64_t i = page; i < page + count; i++)
		if (job->content[i] != job->other[i] && !do_read(job, i, 1))
			return 0;
	return 1;
}

static void do_write(struct job *job, uint64_t page, uint64_t count)
{
	ssize_t size = count * PAGE, done;

	if (!settle(job, page, count))
		return;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t content = next(&job->random);

		/* Half of them from few, so that there is something to meld. */
		content = content & 256 ? content % 40 : content;
		job->other[page + i] = content;
		make_page((uint64_t *)(job->buffer + i * PAGE), content);
	}
	done = pwrite(job->fd, job->buffer, size, (job->first + page) * PAGE);
	job->writes++;
	if (done == size) {
		for (uint64_t i = 0; i < count; i++)
			job->content[page + i] = job->other[page + i];
		return;
	}
	job->failed++;
	if (!job->errors_allowed)
		fail("cannot write", "pages");
}

static void do_discard(struct job *job, uint64_t page, uint64_t count)
{
	uint64_t range[2] = { (job->first + page) * PAGE, count * PAGE };

	if (!settle(job, page, count))
		return;
	job->discards++;
	if (ioctl(job->fd, BLKDISCARD, range)) {
		job->failed++;
		if (!job->errors_allowed)
			fail("cannot discard", "pages");
		for (uint64_t i = 0; i < count; i++)
			job->other[page + i] = 0;
		return;
	}
	for (uint64_t i = 0; i < count; i++)
		job->content[page + i] = job->other[page + i] = 0;
}

/* Whether this process is one that allocations fail for. */
static void faults_set(int on)
{
	int fd = open("/proc/self/make-it-fail", O_WRONLY);

	if (fd < 0 || write(fd, on ? "1" : "0", 1) != 1)
		fail("cannot set", "/proc/self/make-it-fail");
	close(fd);
}

static int job_run(struct job *job, unsigned int seconds)
{
	time_t end = time(NULL) + seconds;

	job->buffer = aligned(RUN_MAX * PAGE);
	/* All memory is there before any of it could be refused. */
	memset(job->buffer, 1, RUN_MAX * PAGE);
	if (ioctl(job->fd, BLKDISCARD, (uint64_t[]){ job->first * PAGE, job->count * PAGE }))
		fail("cannot discard", "all pages");
	if (job->faults)
		faults_set(1);
	do {
		uint64_t what = next(&job->random) % 100;
		uint64_t count = 1 + next(&job->random) % RUN_MAX;
		uint64_t page = next(&job->random) % (job->count - count);

		if (what < 48)
			do_write(job, page, count);
		else if (what < 92)
			do_read(job, page, count);
		else
			do_discard(job, page, count);
	} while (time(NULL) < end);
	if (job->faults)
		faults_set(0);
	for (uint64_t page = 0; page < job->count; page++)
		do_read(job, page, 1);
	printf("# %llu writes, %llu reads, %llu discards, %llu failed\n",
	       (unsigned long long)job->writes, (unsigned long long)job->reads,
	       (unsigned long long)job->discards, (unsigned long long)job->failed);
	return 0;
}

/* The worst of their exit codes. */
static int wait_for_jobs(void)
{
	int worst = 0, status;

	while (wait(&status) > 0) {
		int code = WIFEXITED(status) ? WEXITSTATUS(status) : 3;

		if (WIFSIGNALED(status))
			printf("# a job was killed by signal %d\n", WTERMSIG(status));
		if (code > worst)
			worst = code;
	}
	return worst;
}

static int random_jobs(int argc, char **a)
{
	uint64_t pages = strtoull(a[1], NULL, 0), seed = strtoull(a[3], NULL, 0);
	unsigned int seconds = atoi(a[2]), jobs = atoi(a[4]);
	int status;

	if (!jobs || pages / jobs <= RUN_MAX) {
		printf("# too few pages for %u jobs\n", jobs);
		return 2;
	}
	for (unsigned int n = 0; n < jobs; n++) {
		fflush(stdout);
		if (fork() == 0) {
			struct job job = {
				.fd = open_device(a[0]),
				.first = pages / jobs * n,
				.count = pages / jobs,
				.random = mix(seed + n),
				.errors_allowed = argc > 5,
				.faults = argc > 5 && !strcmp(a[5], "faults"),
			};

			job.content = calloc(job.count, sizeof(uint64_t));
			job.other = calloc(job.count, sizeof(uint64_t));
			if (!job.content || !job.other)
				fail("no memory for", "the model");
			status = job_run(&job, seconds);
			fflush(stdout);
			_exit(status);
		}
	}
	return wait_for_jobs();
}

/* -- Parts of pages, where blocks are smaller ------------------------------- */

#define SECTOR 512
#define SECTORS (PAGE / SECTOR)
#define PARTS_MAX (5 * SECTORS)

static void make_sector(uint64_t *words, uint64_t content)
{
	for (int i = 0; i < SECTOR / 8; i++)
		words[i] = content ? mix(content) + i % 4 : 0;
}

/*
 * With one job: runs of sectors anywhere, written, read and discarded. With more,
 * each has every JOBS'th sector, so that they meet in every page and must not lose
 * what another wrote to it.
 */
static int parts_job(int fd, uint64_t sectors, unsigned int seconds, uint64_t seed,
		     unsigned int n, unsigned int jobs)
{
	uint64_t *content = calloc(sectors, sizeof(*content)), expected[SECTOR / 8];
	uint64_t random = mix(seed + n), done[3] = { 0 };
	unsigned char *buffer = aligned((PARTS_MAX + SECTORS) * SECTOR);
	time_t end = time(NULL) + seconds;

	if (!content)
		fail("no memory for", "the model");
	for (uint64_t step = 0, last = 0; !last || step < sectors; step++) {
		uint64_t what = next(&random) % 100, first, count = 1;
		unsigned char *bytes = buffer + next(&random) % SECTORS * SECTOR;

		if (!last && time(NULL) >= end) {
			last = 1;	/* from here on every sector is read */
			step = 0;
		}
		first = last ? step : next(&random) % sectors;
		if (jobs == 1 && !last)
			count = 1 + next(&random) % PARTS_MAX;
		else
			first = first / jobs * jobs + n;
		if (first + count > sectors)
			continue;
		if (what < 50 && !last) {
			for (uint64_t i = 0; i < count; i++) {
				content[first + i] = next(&random) % 1000;
				make_sector((uint64_t *)(bytes + i * SECTOR), content[first + i]);
			}
			if (pwrite(fd, bytes, count * SECTOR, first * SECTOR) !=
			    (ssize_t)(count * SECTOR))
				fail("cannot write", "sectors");
			done[0]++;
		} else if (what < 90 || last || jobs > 1) {
			if (pread(fd, bytes, count * SECTOR, first * SECTOR) !=
			    (ssize_t)(count * SECTOR))
				fail("cannot read", "sectors");
			for (uint64_t i = 0; i < count; i++) {
				make_sector(expected, content[first + i]);
				if (memcmp(expected, bytes + i * SECTOR, SECTOR)) {
					printf("# WRONG BYTES: sector %llu\n",
					       (unsigned long long)(first + i));
					return 1;
				}
			}
			done[1]++;
		} else {
			uint64_t range[2] = { first * SECTOR, count * SECTOR };
			uint64_t page = (first + SECTORS - 1) / SECTORS;

			if (ioctl(fd, BLKDISCARD, range))
				fail("cannot discard", "sectors");
			/* Whole pages are gone, parts stay. */
			for (; (page + 1) * SECTORS <= first + count; page++)
				memset(content + page * SECTORS, 0, SECTORS * sizeof(*content));
			done[2]++;
		}
	}
	printf("# %llu writes, %llu reads, %llu discards of parts\n",
	       (unsigned long long)done[0], (unsigned long long)done[1],
	       (unsigned long long)done[2]);
	return 0;
}

static int parts(char **a)
{
	uint64_t sectors = strtoull(a[1], NULL, 0) * SECTORS, seed = strtoull(a[3], NULL, 0);
	unsigned int seconds = atoi(a[2]), jobs = atoi(a[4]);
	int fd = open_device(a[0]);

	if (!jobs || sectors < 2 * PARTS_MAX) {
		printf("# too few pages for %u jobs\n", jobs);
		return 2;
	}
	if (ioctl(fd, BLKDISCARD, (uint64_t[]){ 0, sectors * SECTOR }))
		fail("cannot discard", "all pages");
	for (unsigned int n = 0; n < jobs; n++) {
		fflush(stdout);
		if (fork() == 0) {
			int code = parts_job(open_device(a[0]), sectors, seconds, seed, n, jobs);

			fflush(stdout);
			_exit(code);
		}
	}
	return wait_for_jobs();
}

/* Each page once: they are a power of two. */
static void touch(unsigned char *memory, uint64_t pages, char **a)
{
	uint64_t step = strtoull(a[0], NULL, 0), stride = strtoull(a[1], NULL, 0);
	struct rusage before, after;
	clock_t began;

	if (madvise(memory, pages * PAGE, MADV_PAGEOUT) || system(a[2]))
		fail("cannot swap out, or run", a[2]);
	getrusage(RUSAGE_SELF, &before);
	began = clock();
	for (uint64_t n = 0; n < pages / stride; n++)
		(void)*(volatile unsigned char *)(memory + n * step * stride % pages * PAGE);
	getrusage(RUSAGE_SELF, &after);
	printf("us=%ld faults=%ld\n", (long)(clock() - began), after.ru_majflt - before.ru_majflt);
}

static int swap(char **a)
{
	uint64_t pages = strtoull(a[0], NULL, 0) * ((1 << 20) / PAGE), seed = strtoull(a[2], NULL, 0);
	unsigned int rounds = atoi(a[1]), duplicates = atoi(a[3]);
	unsigned char *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t *age = calloc(pages, sizeof(*age));
	uint64_t random = mix(seed);

	if (memory == MAP_FAILED || !age)
		fail("no memory for", "the pages");
	for (uint64_t page = 0; page < pages; page++)
		make_page((uint64_t *)(memory + page * PAGE),
			  content_of(seed, page, duplicates));
	for (unsigned int round = 1; round <= rounds; round++) {
		/* A walk in order, then as many pages anywhere. */
		for (uint64_t n = 0; n < 2 * pages; n++) {
			uint64_t page = n < pages ? n : next(&random) % pages;
			unsigned char *bytes = memory + page * PAGE;
			uint64_t content = content_of(seed + age[page], page, duplicates);

			check(page, content, bytes);
			if (next(&random) % 4)
				continue;
			age[page] = round * 1000 + random % 3;
			content = content_of(seed + age[page], page, duplicates);
			make_page((uint64_t *)bytes, content);
		}
	}
	if (a[4])
		touch(memory, pages, a + 4);
	for (uint64_t page = 0; page < pages; page++)
		check(page, content_of(seed + age[page], page, duplicates), memory + page * PAGE);
	printf("# %llu pages, %u rounds\n", (unsigned long long)pages, rounds);
	return 0;
}

/* -- Allocations that fail -------------------------------------------------- */

#define NTH_FILE "/proc/thread-self/fail-nth"

static int nth_open(void)
{
	int fd = open(NTH_FILE, O_RDWR);

	if (fd < 0)
		fail("cannot open", NTH_FILE);
	return fd;
}

/* 0: none fails. */
static void nth_set(int fd, int nth)
{
	char text[16];
	int size = snprintf(text, sizeof(text), "%d", nth);

	if (pwrite(fd, text, size, 0) != size)
		fail("cannot write", NTH_FILE);
}

/* What is left to count down; 0: the failure was injected. */
static int nth_left(int fd)
{
	char text[16] = "";

	if (pread(fd, text, sizeof(text) - 1, 0) < 0)
		fail("cannot read", NTH_FILE);
	return atoi(text);
}

/*
 * The allocation to fail after this one. Behind the first hundred come the same few,
 * for one size class of the pool after the other: not each of them has its turn.
 */
static int nth_next(int n)
{
	return n < 100 ? n + 1 : n + n / 20;
}

/*
 * Writes a file (reads it, if TEXT is -) again and again, each time with the next
 * allocation failing, from number FIRST on. Exit code 4: it took effect without one;
 * the caller puts things back and goes on with the number that is printed last.
 */
static int nth_file(char **a)
{
	bool reads = !strcmp(a[1], "-");
	int nth_fd = nth_open(), n, fd;
	char text[64];

	for (n = (int)strtol(a[2], NULL, 10); n < NTH_MAX; n = nth_next(n)) {
		ssize_t done;
		int error, left;

		fd = open(a[0], reads ? O_RDONLY : O_WRONLY);
		if (fd < 0)
			fail("cannot open", a[0]);
		nth_set(nth_fd, n);
		done = reads ? read(fd, text, sizeof(text)) : write(fd, a[1], strlen(a[1]));
		error = errno;
		left = nth_left(nth_fd);
		nth_set(nth_fd, 0);
		close(fd);
		if (done >= 0 && left) {
			printf("# %s %s: %d allocations\n", a[0], a[1], n - 1);
			return 0;
		}
		if (done >= 0) {
			printf("# %s %s: done without allocation %d, next %d\n", a[0], a[1], n,
			       nth_next(n));
			return 4;
		}
		/* EINVAL: what a device says whose name could not be allocated. */
		if ((error != ENOMEM && error != EINVAL) || left) {
			printf("# %s %s: %s at allocation %d\n", a[0], a[1], strerror(error), n);
			return 1;
		}
	}
	printf("# %s %s: more than %d allocations\n", a[0], a[1], NTH_MAX);
	return 1;
}

/* A failed write leaves what was there; the one that succeeds replaces it. */
static int nth_page(char **a)
{
	uint64_t page = strtoull(a[1], NULL, 0), random = mix(strtoull(a[2], NULL, 0));
	unsigned char *buffer = aligned(PAGE);
	int fd = open_device(a[0]), nth_fd = nth_open(), n, failed = 0;
	uint64_t old = next(&random) | 3;

	make_page((uint64_t *)buffer, old);
	if (pwrite(fd, buffer, PAGE, page * PAGE) != PAGE)
		fail("cannot write", a[0]);
	for (n = 1; n < NTH_MAX; n++) {
		uint64_t new = next(&random);
		ssize_t done;
		int left;

		make_page((uint64_t *)buffer, new);
		nth_set(nth_fd, n);
		done = pwrite(fd, buffer, PAGE, page * PAGE);
		left = nth_left(nth_fd);
		nth_set(nth_fd, 0);
		if (done == PAGE)
			old = new;
		else
			failed++;
		if (pread(fd, buffer, PAGE, page * PAGE) != PAGE)
			fail("cannot read", a[0]);
		check(page, old, buffer);
		if (left && done == PAGE) {
			printf("# page %llu: %d allocations, %d writes refused\n",
			       (unsigned long long)page, n - 1, failed);
			return 0;
		}
	}
	printf("# a page's write takes more than %d allocations\n", NTH_MAX);
	return 1;
}

/* Writes to an attribute, in one call, and says the error's name. */
static int put(char **a)
{
	int fd = open(a[0], O_WRONLY);
	size_t size = strlen(a[1]);

	if (fd < 0 || write(fd, a[1], size) != (ssize_t)size) {
		const char *name = strerrorname_np(errno);

		printf("%s\n", name ? name : "?");
		return 0;
	}
	printf("0\n");
	return 0;
}

static _Noreturn void lease(char **a)
{
	int fd = open(a[0], O_RDWR | O_CREAT, 0600);

	signal(SIGIO, SIG_IGN);
	if (fd < 0 || fcntl(fd, F_SETLEASE, F_WRLCK))
		fail("cannot lease", a[0]);
	for (;;)
		pause();
}

static _Noreturn void read_on(int count, char **a)
{
	char text[4096];
	int *fds = calloc(count, sizeof(*fds));

	if (!fds)
		fail("no memory for", "the files");
	for (int i = 0; i < count; i++) {
		fds[i] = open(a[i], O_RDONLY);
		if (fds[i] < 0)
			fail("cannot open", a[i]);
	}
	for (int i = 0;; i = (i + 1) % count)
		if (pread(fds[i], text, sizeof(text), 0) < 0)
			fail("cannot read", a[i]);
}

static int user(char **a)
{
	enum { NOBODY = 65534 };

	if (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY))
		fail("setuid", "nobody");
	execvp(a[0], a);
	fail("exec", a[0]);
	return 2;
}

/* -- Somebody else at the wrong moment -------------------------------------- */

struct shared {
	unsigned char page[PAGE];
	volatile unsigned long rounds;	/* of changes to the page */
	volatile int is_open;
};

static struct shared *shared;

static void share(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		fail("no memory for", "a second process");
}

static void end(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static pid_t changer_start(void)
{
	pid_t child = fork();
	unsigned int i;

	if (child < 0)
		fail("cannot fork", "");
	while (!child) {
		for (i = 0; i < PAGE; i += 61)
			((volatile unsigned char *)shared->page)[i] ^= 1 + i;
		shared->rounds++;
	}
	return child;
}

static int changed(char **a)
{
	long pages = strtol(a[1], NULL, 10), page, failed = 0;
	int fd = open_device(a[0]);
	pid_t child;

	share();
	child = changer_start();
	for (page = 0; page < pages; page++)
		failed += pread(fd, shared->page, PAGE, page * PAGE) != PAGE;
	end(child);
	printf("# %ld pages read, %ld errors, changed %lu times meanwhile\n", pages, failed,
	       shared->rounds);
	return failed != 0;
}

static pid_t opener_start(const char *device)
{
	pid_t child;

	shared->is_open = 0;
	child = fork();
	if (child < 0)
		fail("cannot fork", "");
	if (child)
		return child;
	while (open(device, O_RDONLY) < 0)
		;
	shared->is_open = 1;
	for (;;)
		pause();
}

/* 0: it was loaded, and has been unloaded; else the error. */
static int load_once(int file, char **a, int nth_fd, int nth, int *left)
{
	pid_t child = opener_start(a[2]);
	int err;

	nth_set(nth_fd, nth);
	err = syscall(SYS_finit_module, file, a[3], 0) ? errno : 0;
	*left = nth_left(nth_fd);
	nth_set(nth_fd, 0);
	if (err && shared->is_open) {
		printf("# allocation %d: the load failed (%s), and %s is open\n", nth,
		       strerror(err), a[2]);
		exit(1);
	}
	end(child);
	if (err && !access(a[2], F_OK)) {
		printf("# allocation %d: the load failed (%s), and %s is there\n", nth,
		       strerror(err), a[2]);
		exit(1);
	}
	while (!err && syscall(SYS_delete_module, a[1], O_NONBLOCK))
		usleep(1000);
	return err;
}

static int load(char **a)
{
	int file = open(a[0], O_RDONLY | O_CLOEXEC), failed = 0, lived = 0, n, left;
	int nth_fd = nth_open();

	if (file < 0)
		fail("cannot open", a[0]);
	share();
	for (n = 1; n < LOAD_NTH_MAX; n += 1 + n / 10) {
		int err = load_once(file, a, nth_fd, n, &left);

		if (!err && left) {
			printf("# %d allocations, %d loads failed, %d went on\n", n - 1, failed,
			       lived);
			return 0;
		}
		failed += err != 0;
		lived += !err;
	}
	printf("# more than %d allocations\n", LOAD_NTH_MAX);
	return 1;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	char **a = argv + 2;
	int count = argc - 2;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(what, "fill") && count == 4)
		return fill(a, 1);
	if (!strcmp(what, "verify") && count == 4)
		return fill(a, 0);
	if (!strcmp(what, "random") && count >= 5)
		return random_jobs(count, a);
	if (!strcmp(what, "swap") && (count == 4 || count == 7))
		return swap(a);
	if (!strcmp(what, "parts") && count == 5)
		return parts(a);
	if (!strcmp(what, "nth-file") && count == 3)
		return nth_file(a);
	if (!strcmp(what, "nth-page") && count == 3)
		return nth_page(a);
	if (!strcmp(what, "put") && count == 2)
		return put(a);
	if (!strcmp(what, "lease") && count == 1)
		lease(a);
	if (!strcmp(what, "read") && count >= 1)
		read_on(count, a);
	if (!strcmp(what, "user") && count >= 1)
		return user(a);
	if (!strcmp(what, "changed") && count == 2)
		return changed(a);
	if (!strcmp(what, "load") && count == 4)
		return load(a);
	printf("# usage: see the head of pages.c\n");
	return 2;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Programs that run away, others that take much memory and do no harm, and one that
 * waits as a shell does: what `cargo xtask bench guard` has in its guests.
 *
 *	load slow-leak|fast-leak|incompressible|fork-bomb|cache-storm SEED MIB [FILE]
 *	load many-groups|locked|tmpfs|turning SEED MIB
 *		MIB is what programs can take at the beginning. They do not end. Of
 *		many-groups each group has one; turning has pages that are written anew
 *		with what does not compress.
 *	load shared SEED RATE GROUP
 *		40 processes that have the same memory, each in a group of its own below
 *		GROUP. Each takes RATE MiB a second, for ever.
 *	load still|sawtooth|many|make|jvm|reader|random|swapped SEED MIB [FILE]
 *		End with 0 once they are done; 1: memory that is not as it was written.
 *	load hold SEED MIB
 *		Takes MIB, and looks at them now and then, until SIGTERM; 0, or 1 as above.
 *	load grow SEED MIB RATE
 *		Takes RATE MiB a second until it has MIB, and looks at them then as `hold`
 *		does; SIGTERM ends it at once.
 *	load probe RESULT
 *		Starts a program ten times a second and looks at its own 4 MiB, until
 *		SIGTERM; the longest that it had to wait for both, in ms, goes to RESULT.
 *	load groups SOCKET GROUP
 *		Answers whoever asks there as systemd does when systemd-oomd asks it, with
 *		that one group to be watched.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
#define WORDS (PAGE / 8)
#define MIB (1ul << 20)

static volatile sig_atomic_t stopped;

static void on_stop(int number)
{
	(void)number;
	stopped = 1;
}

static void fail(const char *what)
{
	fprintf(stderr, "# load: %s: %s\n", what, strerror(errno));
	exit(2);
}

static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static uint64_t between(uint64_t *state, uint64_t from, uint64_t to)
{
	return from + next(state) % (to - from + 1);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void pause_ms(uint64_t ms)
{
	struct timespec length = {
		.tv_sec = (time_t)(ms / 1000),
		.tv_nsec = (long)(ms % 1000) * 1000000,
	};

	nanosleep(&length, NULL);
}

static void *take(uint64_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		fail("no memory");
	return memory;
}

/* Of each page's words one in `step` is random, the others are alike. */
static void fill(uint64_t *page, uint64_t seed, unsigned int step)
{
	uint64_t state = seed | 1;
	unsigned int i;

	for (i = 0; i < WORDS; i++)
		page[i] = i % step ? seed & 0xffff : next(&state);
}

static void fill_all(uint8_t *memory, uint64_t bytes, uint64_t seed,
		     unsigned int step)
{
	uint64_t at;

	for (at = 0; at < bytes; at += PAGE)
		fill((uint64_t *)(memory + at), seed + at, step);
}

static void check(const uint8_t *memory, uint64_t at, uint64_t seed,
		  unsigned int step)
{
	uint64_t expected[WORDS];

	fill(expected, seed + at, step);
	if (memcmp(memory + at, expected, PAGE))
		_exit(1);
}

/* Looks at pages at random for so long. */
static void look(const uint8_t *memory, uint64_t bytes, uint64_t seed,
		 unsigned int step, double length, uint64_t every_ms)
{
	double end = seconds() + length;
	uint64_t state = seed * 77 + 1;
	int i;

	while (!stopped && seconds() < end) {
		for (i = 0; i < 64; i++)
			check(memory, next(&state) % (bytes / PAGE) * PAGE, seed,
			      step);
		pause_ms(every_ms);
	}
}

/* What memory mostly compresses to: a third. */
#define USUAL 4
#define RANDOM 1

/* So many MiB a second, for ever. */
static void leak(uint64_t seed, uint64_t rate, unsigned int step)
{
	double began = seconds();
	uint64_t taken = 0;

	for (;;) {
		fill_all(take(MIB), MIB, seed + taken, step);
		taken++;
		while ((double)taken > (seconds() - began) * (double)rate)
			pause_ms(5);
	}
}

struct leak {
	uint64_t seed;
	uint64_t rate;
};

static int leak_of(void *leaks)
{
	struct leak *it = leaks;

	leak(it->seed, it->rate, USUAL);
	return 0;
}

/* The same by many who have one memory, without being threads of one process. */
static void leak_shared(struct leak it, const char *group)
{
	const size_t stack = 64 << 10;
	char path[256];
	FILE *file;
	int n, pid;

	for (n = 0; n < 40; n++) {
		pid = clone(leak_of, (char *)take(stack) + stack,
			    CLONE_VM | SIGCHLD, &it);
		if (pid < 0)
			fail("clone");
		snprintf(path, sizeof(path), "%s/%d", group, n);
		mkdir(path, 0755);
		snprintf(path, sizeof(path), "%s/%d/cgroup.procs", group, n);
		file = fopen(path, "w");
		if (!file || fprintf(file, "%d\n", pid) < 0 || fclose(file))
			fail(path);
	}
	leak_of(&it);
}

/* The same, up to so much, which is looked at then. */
static void grow(uint64_t seed, uint64_t mib, uint64_t rate)
{
	uint8_t *memory = take(mib * MIB);
	double began = seconds();
	uint64_t taken = 0;

	while (taken < mib) {
		fill_all(memory + taken * MIB, MIB, seed + taken * MIB, USUAL);
		taken++;
		while ((double)taken > (seconds() - began) * (double)rate)
			pause_ms(5);
	}
	for (;;)
		look(memory, mib * MIB, seed, USUAL, 1, 100);
}

/* The same, of memory that stays in RAM. */
static void leak_locked(uint64_t seed, uint64_t rate)
{
	if (mlockall(MCL_FUTURE))
		fail("mlockall");
	leak(seed, rate, USUAL);
}

/* The same, of files in memory. */
static void leak_files(uint64_t seed, uint64_t rate)
{
	double began = seconds();
	uint8_t *from = take(MIB);
	int fd = memfd_create("load", MFD_CLOEXEC);
	uint64_t taken = 0;

	if (fd < 0)
		fail("memfd");
	for (;;) {
		fill_all(from, MIB, seed + taken, USUAL);
		if (write(fd, from, MIB) != (ssize_t)MIB)
			fail("memfd");
		taken++;
		while ((double)taken > (seconds() - began) * (double)rate)
			pause_ms(5);
	}
}

/* As much as programs can take, then written anew at that rate. */
static void turn(uint64_t seed, uint64_t mib, uint64_t rate)
{
	uint8_t *memory = take(mib * MIB);
	uint64_t turned = 0;
	double began;

	fill_all(memory, mib * MIB, seed, USUAL);
	began = seconds();
	while (turned < mib) {
		fill_all(memory + turned * MIB, MIB, seed + turned, RANDOM);
		turned++;
		while ((double)turned > (seconds() - began) * (double)rate)
			pause_ms(5);
	}
	leak(seed, rate, RANDOM);
}

static void fork_bomb(uint64_t seed)
{
	uint64_t state = seed | 1, each = between(&state, 1, 3) * MIB;
	uint64_t pause = between(&state, 100, 300);

	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		fill_all(take(each), each, seed, USUAL);
		fork();
		pause_ms(pause);
	}
}

static const uint8_t *map(const char *file, uint64_t *bytes)
{
	int fd = open(file, O_RDONLY);
	const uint8_t *memory;
	off_t end;

	if (fd < 0)
		fail(file);
	end = lseek(fd, 0, SEEK_END);
	memory = mmap(NULL, (size_t)end, PROT_READ, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		fail(file);
	*bytes = (uint64_t)end;
	return memory;
}

/* A file's pages, again and again, for so long. */
static void storm(const uint8_t *memory, uint64_t bytes, double length)
{
	double end = seconds() + length;
	volatile uint8_t last;
	uint64_t at = 0, n;

	while (seconds() < end) {
		for (n = 0; n < 256; n++, at = (at + PAGE) % bytes)
			last = memory[at];
		(void)last;
	}
}

static void cache_storm(uint64_t seed, const char *file)
{
	uint64_t bytes, state = seed | 1;
	const uint8_t *memory = map(file, &bytes);
	uint64_t rate = between(&state, 10, 20);

	/* Ends with the other process. */
	if (!fork()) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			storm(memory, bytes, 1000);
	}
	leak(seed, rate, USUAL);
}

static int still(uint64_t seed, uint64_t bytes, unsigned int step)
{
	uint8_t *memory = take(bytes);

	fill_all(memory, bytes, seed, step);
	look(memory, bytes, seed, step, 6, 20);
	return 0;
}

/* Grows fast and gives back, as what sorts or links does. */
static int sawtooth(uint64_t seed, uint64_t bytes)
{
	uint8_t *memory;
	int i;

	for (i = 0; i < 5; i++) {
		memory = take(bytes);
		fill_all(memory, bytes, seed + i, USUAL);
		look(memory, bytes, seed + i, USUAL, 0.5, 10);
		munmap(memory, bytes);
		pause_ms(200);
	}
	return 0;
}

/* So many at a time, and one after the other. */
static int many(uint64_t seed, uint64_t bytes, int at_once, int all,
		double length)
{
	int i, running = 0, code, wrong = 0;
	uint8_t *memory;

	for (i = 0; i < all; i++) {
		if (running == at_once && wait(&code) > 0) {
			running--;
			wrong |= code;
		}
		switch (fork()) {
		case -1:
			return 3;
		case 0:
			memory = take(bytes / at_once);
			fill_all(memory, bytes / at_once, seed + i, USUAL);
			look(memory, bytes / at_once, seed + i, USUAL, length, 20);
			exit(0);
		}
		running++;
		if (at_once < 64)
			pause_ms(20);
	}
	while (wait(&code) > 0)
		wrong |= code;
	return wrong ? 1 : 0;
}

/*
 * As a virtual machine of Java's with -XX:+AlwaysPreTouch begins: it reserves much
 * more than it has, touches all of its heap at once, and then fills one half while
 * it gives the other one back.
 */
static int jvm(uint64_t seed, uint64_t bytes)
{
	uint8_t *heap = mmap(NULL, bytes * 16, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t half = bytes / 2 / PAGE * PAGE, at;
	int i;

	if (heap == MAP_FAILED || mprotect(heap, bytes, PROT_READ | PROT_WRITE))
		fail("cannot reserve");
	for (at = 0; at < bytes; at += PAGE)
		heap[at] = 0;
	for (i = 0; i < 6; i++) {
		uint8_t *young = heap + i % 2 * half;

		fill_all(young, half, seed + i, USUAL);
		madvise(heap + (i + 1) % 2 * half, half, MADV_DONTNEED);
		look(young, half, seed + i, USUAL, 1, 10);
	}
	return 0;
}

static int reader(const char *file)
{
	uint64_t bytes;
	const uint8_t *memory = map(file, &bytes);
	int i, code, wrong = 0;

	for (i = 0; i < 3; i++)
		if (!fork()) {
			storm(memory, bytes, 6);
			exit(0);
		}
	while (wait(&code) > 0)
		wrong |= code;
	return wrong ? 1 : 0;
}

static int hold(uint64_t seed, uint64_t bytes)
{
	uint8_t *memory = take(bytes);

	fill_all(memory, bytes, seed, USUAL);
	while (!stopped)
		look(memory, bytes, seed, USUAL, 1, 100);
	return 0;
}

static void start_one(void)
{
	pid_t child;

	/* A shell would say so and be told again. */
	while ((child = fork()) < 0)
		pause_ms(10);
	if (!child) {
		execl("/bin/busybox", "true", NULL);
		_exit(1);
	}
	waitpid(child, NULL, 0);
}

static int probe(const char *result)
{
	const uint64_t bytes = 4 * MIB;
	uint8_t *memory = take(bytes);
	double began, took, longest = 0;
	uint64_t at;
	FILE *out;

	fill_all(memory, bytes, 5, USUAL);
	while (!stopped) {
		began = seconds();
		start_one();
		for (at = 0; at < bytes; at += 16 * PAGE)
			check(memory, at, 5, USUAL);
		took = seconds() - began;
		longest = took > longest ? took : longest;
		pause_ms(100);
	}
	out = fopen(result, "w");
	if (!out)
		fail(result);
	fprintf(out, "%.0f\n", longest * 1000);
	return fclose(out) ? 2 : 0;
}

static void answer(int fd, const char *group)
{
	char text[1024], byte;
	int size;

	/* One question, which ends with a byte of 0. */
	while (read(fd, &byte, 1) == 1 && byte)
		;
	size = snprintf(text, sizeof(text),
			"{\"parameters\":{\"cgroups\":["
			"{\"mode\":\"kill\",\"path\":\"%s\","
			"\"property\":\"ManagedOOMSwap\"},"
			"{\"mode\":\"kill\",\"path\":\"%s\","
			"\"property\":\"ManagedOOMMemoryPressure\"}]},"
			"\"continues\":true}", group, group);
	if (size < 0 || write(fd, text, (size_t)size + 1) != size + 1)
		fail("cannot answer");
}

static int groups(const char *path, const char *group)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int all = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;

	strncpy(name.sun_path, path, sizeof(name.sun_path) - 1);
	if (all < 0 || bind(all, (struct sockaddr *)&name, sizeof(name)) ||
	    listen(all, 4))
		fail(path);
	while ((fd = accept(all, NULL, NULL)) >= 0)
		answer(fd, group);
	return 0;
}

static int run(const char *kind, uint64_t seed, uint64_t mib, const char *file)
{
	uint64_t state = seed * 2654435761u | 1;

	next(&state);
	if (!strcmp(kind, "slow-leak"))
		leak(seed, between(&state, mib / 24, mib / 12), USUAL);
	else if (!strcmp(kind, "fast-leak"))
		leak(seed, between(&state, mib / 2, mib * 2), USUAL);
	else if (!strcmp(kind, "incompressible"))
		leak(seed, between(&state, mib / 16, mib / 4), RANDOM);
	else if (!strcmp(kind, "many-groups"))
		leak(seed, between(&state, 1, 3), USUAL);
	else if (!strcmp(kind, "locked"))
		leak_locked(seed, between(&state, mib / 16, mib / 4));
	else if (!strcmp(kind, "tmpfs"))
		leak_files(seed, between(&state, mib / 16, mib / 4));
	else if (!strcmp(kind, "turning"))
		turn(seed, mib, between(&state, mib / 16, mib / 8));
	else if (!strcmp(kind, "fork-bomb"))
		fork_bomb(seed);
	else if (!strcmp(kind, "cache-storm"))
		cache_storm(seed, file);
	/* What they need fits: two thirds of RAM, or all of it and a part of swap. */
	else if (!strcmp(kind, "still"))
		return still(seed, mib * between(&state, 45, 65) / 100 * MIB, USUAL);
	else if (!strcmp(kind, "sawtooth"))
		return sawtooth(seed, mib * between(&state, 40, 60) / 100 * MIB);
	else if (!strcmp(kind, "many"))
		return many(seed, mib * between(&state, 30, 50) / 100 * MIB, 30, 120, 6);
	else if (!strcmp(kind, "make"))
		return many(seed, mib * between(&state, 40, 55) / 100 * MIB, 64, 640, 0.5);
	else if (!strcmp(kind, "jvm"))
		return jvm(seed, mib * between(&state, 45, 65) / 100 * MIB);
	else if (!strcmp(kind, "reader"))
		return reader(file);
	else if (!strcmp(kind, "random"))
		return still(seed, mib * between(&state, 30, 45) / 100 * MIB, RANDOM);
	else if (!strcmp(kind, "swapped"))
		return still(seed, mib * between(&state, 90, 110) / 100 * MIB, USUAL);
	else if (!strcmp(kind, "hold"))
		return hold(seed, mib * MIB);
	else if (!strcmp(kind, "grow"))
		grow(seed, mib, strtoull(file, NULL, 10));
	else if (!strcmp(kind, "shared"))
		leak_shared((struct leak){ seed, mib }, file);
	fprintf(stderr, "# load: there is no %s\n", kind);
	return 2;
}

int main(int count, char **arguments)
{
	struct sigaction on_term = { .sa_handler = on_stop };
	const char *kind = count > 2 ? arguments[1] : "";

	if (!strcmp(kind, "probe") || !strcmp(kind, "hold"))
		sigaction(SIGTERM, &on_term, NULL);
	if (!strcmp(kind, "probe"))
		return probe(arguments[2]);
	if (!strcmp(kind, "nothing"))
		return 0;
	if (!strcmp(kind, "groups") && count > 3)
		return groups(arguments[2], arguments[3]);
	if (count < 4) {
		fprintf(stderr, "# load KIND SEED MIB [FILE]\n");
		return 2;
	}
	return run(kind, strtoull(arguments[2], NULL, 10),
		   strtoull(arguments[3], NULL, 10),
		   count > 4 ? arguments[4] : "");
}

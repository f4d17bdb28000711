// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Drives a fuzz target where there is no libFuzzer: with random bytes, or with
 * the files that an earlier run left.
 *
 *	TARGET [-runs=N] [-seed=N] [-seconds=N] [-input=FILE]
 *	TARGET FILE...
 *
 * Each input is written to -input before it is used, so that a crash, however
 * it ends the program, leaves it there; a run without one removes the file.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

#define INPUT_MAX 8192

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);
/* A target may have one. */
size_t LLVMFuzzerCustomMutator(u8 *data, size_t size, size_t size_max,
			       unsigned int seed) __attribute__((weak));

static u8 input[INPUT_MAX];

static bool option(const char *argument, const char *name, const char **value)
{
	size_t length = strlen(name);

	if (strncmp(argument, name, length) || argument[length] != '=')
		return false;
	*value = argument + length + 1;
	return true;
}

static void replay(const char *path)
{
	FILE *file = fopen(path, "rb");
	size_t size;
	u8 *exact;

	if (!file)
		DIE("cannot read %s", path);
	size = fread(input, 1, INPUT_MAX, file);
	fclose(file);
	/* A block of just that size, for the address sanitizer. */
	exact = malloc(size ? size : 1);
	if (!exact)
		DIE("no memory");
	memcpy(exact, input, size);
	LLVMFuzzerTestOneInput(exact, size);
	free(exact);
	printf("%s: nothing wrong\n", path);
}

/* Short inputs mostly; bytes of few values as often as of all. */
static size_t make(struct rng *rng)
{
	size_t size = rng_below(rng, rng_below(rng, 8) ? 400 : INPUT_MAX) + 1;
	u64 mask = rng_below(rng, 2) ? 0xff : rng_next(rng) & 0xff;
	size_t i;

	for (i = 0; i < size; i++)
		input[i] = (u8)(rng_next(rng) >> 40 & mask);
	input[0] = (u8)(rng_next(rng) >> 40);
	if (LLVMFuzzerCustomMutator && rng_below(rng, 2))
		return LLVMFuzzerCustomMutator(input, 1, INPUT_MAX,
					       (unsigned int)rng_next(rng));
	return size;
}

static void keep(int file, size_t size)
{
	if (file < 0)
		return;
	if (pwrite(file, input, size, 0) != (ssize_t)size ||
	    ftruncate(file, (off_t)size))
		DIE("cannot keep the input");
}

static void drive(u64 runs, u64 seed, u64 seconds, const char *path)
{
	int file = path ? open(path, O_CREAT | O_RDWR | O_TRUNC, 0644) : -1;
	time_t end = time(NULL) + (time_t)seconds;
	struct rng rng = { seed };
	size_t size;
	u64 run;
	u8 *exact;

	if (path && file < 0)
		DIE("cannot write %s", path);
	for (run = 0; run < runs && (!seconds || time(NULL) < end); run++) {
		size = make(&rng);
		keep(file, size);
		exact = malloc(size);
		if (!exact)
			DIE("no memory");
		memcpy(exact, input, size);
		LLVMFuzzerTestOneInput(exact, size);
		free(exact);
	}
	if (path) {
		close(file);
		unlink(path);
	}
	printf("%llu random inputs from seed %llu: nothing wrong\n",
	       (unsigned long long)run, (unsigned long long)seed);
}

int main(int argc, char **argv)
{
	u64 runs = 1000, seed = 1, seconds = 0;
	const char *path = NULL, *value;
	int i;

	for (i = 1; i < argc; i++) {
		if (option(argv[i], "-runs", &value))
			runs = strtoull(value, NULL, 0);
		else if (option(argv[i], "-seed", &value))
			seed = strtoull(value, NULL, 0);
		else if (option(argv[i], "-seconds", &value))
			seconds = strtoull(value, NULL, 0);
		else if (option(argv[i], "-input", &value))
			path = value;
		else
			break;
	}
	if (i == argc)
		drive(runs, seed, seconds, path);
	for (; i < argc; i++)
		replay(argv[i]);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A codec's work and nothing else, for a processor whose instructions are counted.
 *
 *	instructions CODEC[:LEVEL] compress|decompress PASSES FILE
 *
 * Each of the file's pages is compressed, or was and is decompressed, as often as there
 * are passes. One pass takes what two runs differ by. Exit code 1: a wrong byte.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmeld/codec.h>
#include "../port/user/codec_user.h"

#define PAGE		ZM_PAGE_SIZE
#define PAGES_MAX	4096u

static const struct zm_codec_ops *const codecs[] = {
	&zm_codec_lz4, &zm_codec_lzorle, &zm_codec_zstd, &zm_codec_zword,
};

static u8 pages[PAGES_MAX][PAGE], object[2 * PAGE], back[PAGE];
static struct zm_codec_params params = { .level = ZM_CODEC_LEVEL_DEFAULT };
static const struct zm_codec_ops *ops;
static void *context;

static void fail(const char *what)
{
	printf("%s\n", what);
	exit(2);
}

static void choose(char *name)
{
	char *level = strchr(name, ':');

	if (level) {
		*level = '\0';
		params.level = atoi(level + 1);
	}
	for (size_t k = 0; k < sizeof(codecs) / sizeof(*codecs); k++)
		if (!strcmp(codecs[k]->name, name))
			ops = codecs[k];
	if (!ops || ops->params_setup(&params) ||
	    ops->context_create(&params, &context))
		fail("no such codec or level");
}

static u32 read_pages(const char *path)
{
	FILE *file = fopen(path, "rb");
	u32 count = 0;

	if (!file)
		fail("cannot open the file");
	while (count < PAGES_MAX && fread(pages[count], PAGE, 1, file) == 1)
		count++;
	fclose(file);
	return count;
}

int main(int argc, char **argv)
{
	u32 count, passes;
	bool reads;

	if (argc != 5)
		fail("usage: see the head of instructions.c");
	choose(argv[1]);
	reads = !strcmp(argv[2], "decompress");
	passes = (u32)atoi(argv[3]);
	count = read_pages(argv[4]);
	for (u32 k = 0; k < count; k++) {
		size_t size = sizeof(object);

		for (u32 pass = 0; pass < (reads ? 1 : passes); pass++) {
			size = sizeof(object);
			if (ops->compress(context, &params, pages[k], PAGE, object, &size))
				fail("does not compress");
		}
		for (u32 pass = 0; reads && pass < passes; pass++)
			if (ops->decompress(context, &params, object, size, back, PAGE))
				fail("does not decompress");
		if (reads && passes && memcmp(back, pages[k], PAGE))
			return 1;
	}
	printf("%u pages\n", count);
	return 0;
}

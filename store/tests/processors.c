// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * zword's objects and pages on any processor: of either byte order, of 32 or 64 bits.
 *
 *	processors [FILE...]
 *
 * Compresses pages of 4, 16 and 64 KiB, made ones and those of the files, at both
 * levels; decompresses the objects, and each of them damaged in some places. Prints a
 * hash of all bytes that came of it for each size and level, so that two processors
 * can be compared line by line. Exit code 1: a page did not come back.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmeld/codec.h>
#include "../zword/zword.h"

#define BLOCK		4096u
#define MADE		96u
#define FROM_FILES	400u
#define BYTES_MAX	((MADE + FROM_FILES) * BLOCK)
#define DAMAGES		8u

static u8 bytes[BYTES_MAX];
static u8 object[2 * ZWORD_PAGE_SIZE_MAX], page[ZWORD_PAGE_SIZE_MAX];
static struct zword_work work;
static struct zword_tables *tables;
static u64 random_state = 88172645463325252ull;

static u64 random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* Byte by byte: the same on each processor. */
static void put_word(u8 *at, u64 word, u32 width)
{
	for (u32 k = 0; k < width; k++)
		at[k] = (u8)(word >> 8 * k);
}

/* Pointers and counters of one width, text, little of anything, noise. */
static void make_block(u8 *to, u32 kind)
{
	static const char text[] = "the kernel swaps this page out and in again, ";
	u32 width = kind % 2 ? 4 : 8;
	u64 base = random_next();

	for (u32 at = 0; at < BLOCK; at += width) {
		u64 chance = random_next();

		switch (kind / 2 % 4) {
		case 0:
			put_word(to + at, base + chance % 4096 * 16, width);
			break;
		case 1:
			put_word(to + at, chance % 8 ? 0 : base + at, width);
			break;
		case 2:
			for (u32 k = 0; k < width; k++)
				to[at + k] = (u8)text[(at + k + (chance % 64 == 0)) %
						      (sizeof(text) - 1)];
			break;
		default:
			put_word(to + at, chance, width);
		}
	}
}

static u32 collect(char **files, int count)
{
	u32 blocks = 0;

	for (; blocks < MADE; blocks++)
		make_block(bytes + blocks * BLOCK, blocks);
	for (int k = 0; k < count; k++) {
		FILE *file = fopen(files[k], "rb");

		if (!file) {
			printf("cannot open %s\n", files[k]);
			exit(2);
		}
		while (blocks < MADE + FROM_FILES &&
		       fread(bytes + blocks * BLOCK, BLOCK, 1, file) == 1)
			blocks++;
		fclose(file);
	}
	return blocks;
}

static void hash_add(u64 *hash, const u8 *from, size_t size)
{
	for (size_t k = 0; k < size; k++)
		*hash = (*hash ^ from[k]) * 0x100000001b3ull;
}

/* What a damaged object gives is the same, too: an error, or the same page. */
static void damage(u64 *hash, size_t object_size, u32 size)
{
	for (u32 k = 0; k < DAMAGES; k++) {
		size_t at = random_next() % object_size;
		u8 was = object[at];
		int ret;

		object[at] ^= (u8)(1 + random_next() % 255);
		memset(page, 0, size);
		ret = zword_decompress(tables, &work, object, object_size, page,
				       size);
		hash_add(hash, (const u8[]){ ret == 0 }, 1);
		if (!ret)
			hash_add(hash, page, size);
		object[at] = was;
	}
}

static int compare(u32 blocks, u32 size, int level)
{
	u32 count = blocks * BLOCK / size;
	u64 hash = 0xcbf29ce484222325ull, all = 0;

	for (u32 k = 0; k < count; k++) {
		const u8 *from = bytes + (size_t)k * size;
		size_t object_size = sizeof(object);

		memset(page, 0, size);
		if (zword_compress(tables, &work, level, from, size, object,
				   &object_size) ||
		    zword_decompress(tables, &work, object, object_size, page,
				     size) ||
		    memcmp(page, from, size)) {
			printf("page %u of %u bytes, level %d, does not come back\n",
			       k, size, level);
			return 1;
		}
		all += object_size;
		hash_add(&hash, object, object_size);
		damage(&hash, object_size, size);
	}
	printf("%u pages of %u bytes, level %d: %llu bytes, %016llx\n", count,
	       size, level, (unsigned long long)all, (unsigned long long)hash);
	return 0;
}

int main(int argc, char **argv)
{
	u32 blocks = collect(argv + 1, argc - 1);

	tables = malloc(zword_tables_size());
	if (!tables ||
	    zword_tables_build(tables, zword_lengths, zword_lengths_size)) {
		printf("no tables\n");
		return 2;
	}
	for (u32 size = BLOCK; size <= ZWORD_PAGE_SIZE_MAX; size *= 4)
		for (int level = ZWORD_LEVEL_GLANCE; level <= ZWORD_LEVEL_ALL; level++)
			if (compare(blocks, size, level))
				return 1;
	free(tables);
	return 0;
}

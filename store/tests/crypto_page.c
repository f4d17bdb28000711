// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What zword.ko promises the kernel's crypto API, in user space: whole pages alone, no
 * byte past the capacity, an encoding that does not give its page back used nowhere
 * where writes are checked, and a self-test that finds wrong tables.
 */
#include "harness.h"

/* The module's own sources: no other program has them. */
#include "../crypto/page.c"
/* As in a kernel, for the self-test. */
#define cond_resched()	((void)0)

/* What the self-test is given in place of the page's functions, see below. */
static int faulty_compress(const struct zword_manner *manner,
			   struct zword_context *context, u8 *page,
			   unsigned int page_size, u8 *object,
			   unsigned int *size);
static int faulty_decompress(const struct zword_tables *tables,
			     struct zword_context *context, const u8 *object,
			     unsigned int size, u8 *out, unsigned int *room);
#define zword_page_compress	faulty_compress
#define zword_page_decompress	faulty_decompress
#include "../crypto/selftest.c"
#undef zword_page_compress
#undef zword_page_decompress

#define TEST_PAGES (ZM_PAGE_SIZE > 4096 ? 80u : 400u)

static struct zword_tables *tables;
static struct zword_context *contexts[3];	/* by level, of its size */

/* What the self-test has to find, at the last page of the second level. */
enum fault {
	NO_FAULT,
	PAGE_REFUSED,
	PAGE_NOT_DECODED,
	PAGE_SHORT,
	PAGE_WRONG_AT_ITS_END,
	BYTE_BEHIND_PAGE,
	BYTE_FAR_BEHIND_PAGE,
	BYTE_BEHIND_DAMAGED_PAGE,
	MODE_NEVER_MET,	/* and one for each mode more */
	FAULTS = MODE_NEVER_MET + ZWORD_RAW + 1,
};

static struct {
	u32 fault;
	u32 compressed, decompressed;
	u8 object[2 * ZM_PAGE_SIZE];
	u32 flips[8];	/* damaged bits, by their place in a byte */
	u32 halves[2];	/* and those in either half of an object */
} run;

static bool is_last_page(void)
{
	return run.compressed == 2 * PAGES;
}

static u32 first_mode(const u8 *object)
{
	return object[ZM_PAGE_SIZE > ZWORD_BLOCK_SIZE ? 2 : 0] & 3;
}

static int faulty_compress(const struct zword_manner *manner,
			   struct zword_context *context, u8 *page,
			   unsigned int page_size, u8 *object,
			   unsigned int *size)
{
	u32 number = 0, room = *size;
	int err;

	if (room != sizeof(run.object) || page_size != ZM_PAGE_SIZE)
		DIE("the self-test has %u bytes for %u", room, page_size);
	run.compressed++;
	err = zword_page_compress(manner, context, page, page_size, object,
				  size);
	while (!err && manner->level == ZWORD_LEVEL_ALL &&
	       run.fault == MODE_NEVER_MET + first_mode(object)) {
		zword_grammar_page(3, number++, page, page_size);
		*size = room;
		err = zword_page_compress(manner, context, page, page_size,
					  object, size);
	}
	memcpy(run.object, object, *size);
	return run.fault == PAGE_REFUSED && is_last_page() ? -EINVAL : err;
}

static int faulty_decompress(const struct zword_tables *tables,
			     struct zword_context *context, const u8 *object,
			     unsigned int size, u8 *out, unsigned int *room)
{
	bool is_damaged = ++run.decompressed % 2 == 0;
	int err = zword_page_decompress(tables, context, object, size, out,
					room);
	u32 at, flip, flips = 0;

	for (at = 0; at < size; at++) {
		flip = object[at] ^ run.object[at];
		if (!flip)
			continue;
		flips += 1 + !!(flip & (flip - 1));
		run.flips[__builtin_ctz(flip)]++;
		run.halves[at >= size / 2]++;
	}
	if (flips != is_damaged)
		DIE("%u bits of an object are damaged", flips);
	if (!is_last_page())
		return err;
	if (is_damaged) {
		if (run.fault == BYTE_BEHIND_DAMAGED_PAGE)
			out[ZM_PAGE_SIZE] ^= 1;
		return err;
	}
	switch (run.fault) {
	case PAGE_NOT_DECODED:
		return -EINVAL;
	case PAGE_SHORT:
		*room = ZM_PAGE_SIZE - 1;
		break;
	case PAGE_WRONG_AT_ITS_END:
		out[ZM_PAGE_SIZE - 1] ^= 1;
		break;
	case BYTE_BEHIND_PAGE:
		out[ZM_PAGE_SIZE] ^= 1;
		break;
	case BYTE_FAR_BEHIND_PAGE:
		out[ZM_PAGE_SIZE + CANARY_SIZE - 1] ^= 1;
	}
	return err;
}

static void selftest_finds_each_fault(void)
{
	void *memory = malloc(zword_selftest_size());
	u32 fault, k;
	int err;

	for (fault = NO_FAULT; fault < FAULTS; fault++) {
		memset(&run, 0, sizeof(run));
		run.fault = fault;
		err = zword_selftest(tables, memory);
		if (err != (fault == NO_FAULT ? 0 : -EIO))
			DIE("the self-test gives %d for fault %u", err, fault);
		if (run.compressed != 2 * PAGES)
			DIE("the self-test has %u pages", run.compressed);
		for (k = 0; k < 8; k++)
			if (!run.flips[k])
				DIE("it damages no bit %u", k);
		if (!run.halves[0] || !run.halves[1])
			DIE("it damages one half of objects alone");
	}
	run.fault = NO_FAULT;
	free(memory);
}

static void sizes_are_refused(const u8 *page, u8 *object)
{
	const struct zword_manner manner = { .tables = tables, .level = 1 };
	struct zword_context *context = contexts[manner.level];
	static const unsigned int wrong[] = {
		0, 1, 512, ZM_PAGE_SIZE - 1, ZM_PAGE_SIZE + 1, 2 * ZM_PAGE_SIZE,
	};
	unsigned int size, k;

	for (k = 0; k < sizeof(wrong) / sizeof(wrong[0]); k++) {
		size = 2 * ZM_PAGE_SIZE;
		if (zword_page_compress(&manner, context, page, wrong[k], object,
					&size) != -EINVAL)
			DIE("a source of %u bytes is taken", wrong[k]);
	}
	size = 2 * ZM_PAGE_SIZE;
	if (zword_page_compress(&manner, context, page, ZM_PAGE_SIZE, object,
				&size))
		DIE("a page is refused");
	for (k = 0; k < ZM_PAGE_SIZE; k += 511) {
		unsigned int room = k;
		u8 *out = malloc(k ? k : 1);

		if (zword_page_decompress(tables, context, object, size, out,
					  &room) != -EINVAL)
			DIE("a page is decoded into %u bytes", k);
		free(out);
	}
}

/* The heap's end is the capacity's: a byte past it is found by the sanitizer. */
static void capacities_are_kept(const u8 *page, u64 number)
{
	const struct zword_manner manner = {
		.tables = tables, .level = 1 + number % 2, .is_checked = true,
	};
	struct zword_context *context = contexts[manner.level];
	u8 *whole = malloc(2 * ZM_PAGE_SIZE), *tight, *out;
	unsigned int size = 2 * ZM_PAGE_SIZE, room, back;
	int err;

	if (zword_page_compress(&manner, context, page, ZM_PAGE_SIZE, whole,
				&size))
		DIE("page %llu is refused", number);
	for (room = size > 2 ? size - 2 : 0; room <= size; room++) {
		unsigned int written = room;

		tight = malloc(room ? room : 1);
		err = zword_page_compress(&manner, context, page, ZM_PAGE_SIZE,
					  tight, &written);
		if (err != (room < size ? -ENOSPC : 0))
			DIE("page %llu into %u bytes of %u gives %d", number,
			    room, size, err);
		free(tight);
	}
	out = malloc(ZM_PAGE_SIZE);
	back = 2 * ZM_PAGE_SIZE;
	if (zword_page_decompress(tables, context, whole, size, out, &back) ||
	    back != ZM_PAGE_SIZE || memcmp(out, page, ZM_PAGE_SIZE))
		DIE("page %llu does not come back", number);
	back = ZM_PAGE_SIZE;
	if (size > 3 && zword_page_decompress(tables, context, whole, size / 2,
					      out, &back) != -EINVAL)
		DIE("half of page %llu's object is decoded", number);
	free(out);
	free(whole);
}

/* Tables of an encoder that tells other codes than the decoder knows. */
static void wrong_encodings_are_found(u8 *page, u8 *object)
{
	struct zword_manner manner = { .tables = tables, .level = 1 };
	struct zword_context *context = contexts[manner.level];
	struct zword_word_encoder *encoder = &tables->word_encoder[0];
	unsigned int size, back = ZM_PAGE_SIZE, found = 0, taken = 0;
	void *memory = malloc(zword_selftest_size());
	u8 *out = malloc(ZM_PAGE_SIZE);
	u32 number, set, k;

	for (set = 0; set < ZWORD_SETS; set++)
		for (k = 0; k < 256; k++)
			encoder->codes[set].literal[0][k] ^= 1u << 4;
	for (number = 0; number < TEST_PAGES; number++) {
		zword_grammar_page(1, number, page, ZM_PAGE_SIZE);
		size = 2 * ZM_PAGE_SIZE;
		manner.is_checked = false;
		taken += !zword_page_compress(&manner, context, page,
					      ZM_PAGE_SIZE, object, &size);
		size = 2 * ZM_PAGE_SIZE;
		manner.is_checked = true;
		switch (zword_page_compress(&manner, context, page,
					    ZM_PAGE_SIZE, object, &size)) {
		case ZWORD_PAGE_KEPT_RAW:
			found++;
			if (zword_page_decompress(tables, context, object, size,
						  out, &back) ||
			    memcmp(out, page, ZM_PAGE_SIZE))
				DIE("page %u does not come back as it is", number);
			size = ZM_PAGE_SIZE;
			if (zword_page_compress(&manner, context, page,
						ZM_PAGE_SIZE, object,
						&size) != -EIO)
				DIE("page %u is kept without room", number);
			break;
		case 0:
			break;
		default:
			DIE("page %u is refused", number);
		}
	}
	if (taken != TEST_PAGES || !found)
		DIE("%u of %u pages were taken unchecked, %u found wrong", taken,
		    TEST_PAGES, found);
	if (zword_selftest(tables, memory) != -EIO)
		DIE("the self-test takes wrong tables");
	free(memory);
	free(out);
	printf("crypto_page: %u pages, %u wrong encodings found\n", TEST_PAGES,
	       found);
}

int main(void)
{
	u8 *page = malloc(ZM_PAGE_SIZE), *object = malloc(2 * ZM_PAGE_SIZE);
	u32 number;
	int level;

	tables = malloc(zword_tables_size());
	for (level = ZWORD_LEVEL_GLANCE; level <= ZWORD_LEVEL_ALL; level++)
		contexts[level] = malloc(zword_context_size());
	if (zword_tables_build(tables, zword_lengths, zword_lengths_size))
		DIE("the tables cannot be built");
	selftest_finds_each_fault();
	for (number = 0; number < TEST_PAGES; number++) {
		zword_grammar_page(2, number, page, ZM_PAGE_SIZE);
		capacities_are_kept(page, number);
	}
	sizes_are_refused(page, object);
	wrong_encodings_are_found(page, object);
	free(page);
	free(object);
	free(tables);
	free(contexts[1]);
	free(contexts[2]);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What zword.ko promises the kernel's crypto API, in user space: whole pages alone, no
 * byte past the capacity, an encoding that does not give its page back used nowhere
 * where writes are checked, and a self-test that finds wrong tables.
 */
#include "harness.h"

#include "../zword/grammar.h"
#include "../zword/zword.h"

/* The page's owner, who may change it between an encoding and the look at it. */
static struct {
	u8 *page;
	u32 changes;	/* so many are to come, after an encoding each */
	u32 encoded;
} owner;

static int watched_compress(const struct zword_tables *tables,
			    struct zword_work *work, int level, const u8 *src,
			    size_t src_size, u8 *dst, size_t *dst_size)
{
	int err = zword_compress(tables, work, level, src, src_size, dst,
				 dst_size);

	owner.encoded++;
	if (owner.changes) {
		zword_grammar_page(4, owner.changes--, owner.page,
				   ZM_PAGE_SIZE);
	}
	return err;
}

/* The module's own sources: no other program has them. */
#define zword_compress	watched_compress
#include "../crypto/page.c"
#undef zword_compress
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
/* Between capacities, of large pages. */
#define ROOM_STEP (ZM_PAGE_SIZE > 4096 ? 211u : 1u)

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
	DAMAGED_PAGE_SHORT,
	MODE_NEVER_MET,	/* and one for each mode more */
	FAULTS = MODE_NEVER_MET + ZWORD_RAW + 1,
};

static struct {
	u32 fault;
	u32 compressed, decompressed, checked;
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
	run.checked += manner->is_checked;
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
		if (run.fault != DAMAGED_PAGE_SHORT)
			return err;
		*room = ZM_PAGE_SIZE - 1;
		return 0;
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
		out[ZM_PAGE_SIZE + 63] ^= 1;
	}
	return err;
}

static void selftest_finds_each_fault(void)
{
	void *memory = malloc(zword_selftest_size());
	u32 fault, k;
	int err;

	EXPECT(zword_selftest_size() < zword_context_size() + 5 * ZM_PAGE_SIZE);
	for (fault = NO_FAULT; fault < FAULTS; fault++) {
		memset(&run, 0, sizeof(run));
		run.fault = fault;
		err = zword_selftest(tables, memory);
		if (err != (fault == NO_FAULT ? 0 : -EIO))
			DIE("the self-test gives %d for fault %u", err, fault);
		if (run.compressed != 2 * PAGES || run.checked != PAGES)
			DIE("the self-test has %u pages, %u of them checked",
			    run.compressed, run.checked);
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

/*
 * The heap's end is the capacity's: a byte past it is found by the sanitizer. What does
 * not fit is refused whatever the room: of some pages all are tried, of the others those
 * around each block's end.
 */
static void capacities_are_kept(const u8 *page, u64 number, int level,
				unsigned int *size)
{
	const struct zword_manner manner = {
		.tables = tables, .level = level, .is_checked = true,
	};
	struct zword_context *context = contexts[manner.level];
	u8 *whole = malloc(2 * ZM_PAGE_SIZE), *tight, *out;
	unsigned int room, next = 0, back;
	int err;

	*size = 2 * ZM_PAGE_SIZE;
	if (zword_page_compress(&manner, context, page, ZM_PAGE_SIZE, whole,
				size))
		DIE("page %llu is refused", number);
	for (room = 0; room <= *size; room++) {
		unsigned int written = room;

		/* Before each block but the last stands its size. */
		while (ZM_PAGE_SIZE > ZWORD_BLOCK_SIZE && next + 2 < room)
			next += 2 + whole[next] + 256u * whole[next + 1];
		if (room + 2 < *size &&
		    (number % 10 ||
		     (room - next > 2 && (number % 100 || room % ROOM_STEP))))
			continue;
		tight = malloc(room ? room : 1);
		err = zword_page_compress(&manner, context, page, ZM_PAGE_SIZE,
					  tight, &written);
		if (err != (room < *size ? -ENOSPC : 0) ||
		    written != room || (!err && memcmp(tight, whole, room)))
			DIE("page %llu into %u bytes of %u gives %d", number,
			    room, *size, err);
		free(tight);
	}
	out = malloc(ZM_PAGE_SIZE);
	back = 2 * ZM_PAGE_SIZE;
	if (zword_page_decompress(tables, context, whole, *size, out, &back) ||
	    back != ZM_PAGE_SIZE || memcmp(out, page, ZM_PAGE_SIZE))
		DIE("page %llu does not come back", number);
	back = ZM_PAGE_SIZE;
	if (*size > 3 && zword_page_decompress(tables, context, whole, *size / 2,
					       out, &back) != -EINVAL)
		DIE("half of page %llu's object is decoded", number);
	free(out);
	free(whole);
}

/*
 * A page that changes once while it is encoded is encoded once more; one that changes
 * again is kept raw. Each time in all the room that there is.
 */
static void changing_pages_are_encoded_again(u8 *page, u8 *object)
{
	const struct zword_manner manner = {
		.tables = tables, .level = 1, .is_checked = true,
	};
	u8 *out = malloc(ZM_PAGE_SIZE);
	unsigned int size, back = ZM_PAGE_SIZE;
	u32 changes;
	int err;

	for (changes = 0; changes <= 2; changes++) {
		memset(page, 0, ZM_PAGE_SIZE);
		owner.page = page;
		owner.changes = changes;
		owner.encoded = 0;
		size = 2 * ZM_PAGE_SIZE;
		err = zword_page_compress(&manner, contexts[1], page,
					  ZM_PAGE_SIZE, object, &size);
		EXPECT(err == (changes == 2 ? ZWORD_PAGE_KEPT_RAW : 0));
		EXPECT(owner.encoded == changes + 1 && !owner.changes);
		EXPECT(!zword_page_decompress(tables, contexts[1], object, size,
					      out, &back));
		EXPECT(!memcmp(out, page, ZM_PAGE_SIZE));
	}
	free(out);
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
			if (!zword_page_decompress(tables, context, object, size,
						   out, &back) &&
			    !memcmp(out, page, ZM_PAGE_SIZE))
				break;
			/* fall through */
		default:
			DIE("page %u is refused, or taken wrong", number);
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
	u64 sum[2] = { 0 };
	unsigned int size;
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
		for (level = 1; level <= 2; level++) {
			capacities_are_kept(page, number, level, &size);
			sum[level - 1] += size;
		}
	}
	if (sum[1] >= sum[0])
		DIE("level 2 takes %llu bytes, level 1 %llu", sum[1], sum[0]);
	changing_pages_are_encoded_again(page, object);
	sizes_are_refused(page, object);
	wrong_encodings_are_found(page, object);
	free(page);
	free(object);
	free(tables);
	free(contexts[1]);
	free(contexts[2]);
	return 0;
}

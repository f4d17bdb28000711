// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Codecs that encode wrongly, and what check_writes makes of it: a page is kept
 * raw, or as the object that it had, and counted; the page that comes back is the
 * one that was written.
 *
 *	check_writes
 *
 * The codecs of these stores have a hook: what they encode is another page, or
 * does not decode at all, or the page's owner changes it meanwhile.
 */
#include <zmeld/port.h>

#include "disk.h"
#include "harness.h"

#define SLOTS 8

enum fault {
	FAULT_NONE,
	FAULT_BYTE,		/* one byte is another: it decodes all the same */
	FAULT_END,		/* the last byte is missing */
	FAULTS,
};

static const struct zm_codec_ops *first, *second;	/* as they are */
static struct zm_codec_ops first_hooked, second_hooked;
static enum fault fault_first, fault_second;
static u32 encoded_first, encoded_second;	/* calls */
static size_t size_first;	/* of what the first codec makes; 0: its own */
/* The owner's page, and before which calls of the first codec it changes. */
static u8 owned[ZM_PAGE_SIZE];
static u32 changes_left;
static struct disk disk;

static int encode(const struct zm_codec_ops *codec, enum fault fault, void *ctx,
		  const struct zm_codec_params *params, const void *src,
		  void *dst, size_t *dst_size)
{
	u8 other[ZM_PAGE_SIZE];
	int err;

	memcpy(other, src, ZM_PAGE_SIZE);
	if (fault == FAULT_BYTE)
		other[ZM_PAGE_SIZE / 2] ^= 1;
	err = codec->compress(ctx, params, other, ZM_PAGE_SIZE, dst, dst_size);
	if (!err && fault == FAULT_END)
		--*dst_size;
	return err;
}

static int first_compress(void *ctx, const struct zm_codec_params *params,
			  const void *src, size_t src_size,
			  void *dst, size_t *dst_size)
{
	int err = encode(first, fault_first, ctx, params, src, dst, dst_size);

	(void)src_size;
	encoded_first++;
	if (size_first)
		*dst_size = size_first;
	/* What was encoded is not in the page any more. */
	if (changes_left) {
		changes_left--;
		owned[100]++;
	}
	return err;
}

static int second_compress(void *ctx, const struct zm_codec_params *params,
			   const void *src, size_t src_size,
			   void *dst, size_t *dst_size)
{
	(void)src_size;
	encoded_second++;
	return encode(second, fault_second, ctx, params, src, dst, dst_size);
}

/* first_checks: whether auto checks what the first codec writes. */
static struct zm_store *open_store(u32 mode, u32 check_writes,
				   bool first_checks)
{
	struct zm_store_options options = test_options("lz4", SLOTS, mode);

	options.verify = false;
	options.check_writes = check_writes;
	test_codec(&options, 1, "deflate");
	first = options.codecs[0].ops;
	first_hooked = *first;
	first_hooked.compress = first_compress;
	first_hooked.check_writes = first_checks;
	options.codecs[0].ops = &first_hooked;
	second = options.codecs[1].ops;
	second_hooked = *second;
	second_hooked.compress = second_compress;
	options.codecs[1].ops = &second_hooked;
	fault_first = FAULT_NONE;
	fault_second = FAULT_NONE;
	encoded_first = 0;
	encoded_second = 0;
	return test_store(&options, DISK_BLOCKS);
}

static void close_store(struct zm_store *store)
{
	check_store(store, ZM_CHECK_CONTENTS, "at a case's end", 0);
	zm_store_destroy(store);
}

/* Text, which deflate makes smaller than lz4. */
static void put(struct zm_store *store, u64 index, u64 number)
{
	page_make(owned, 4 + 8 * number);
	test_write(store, index, owned);
}

static bool gives(struct zm_store *store, u64 index, u64 number)
{
	u8 page[ZM_PAGE_SIZE], wanted[ZM_PAGE_SIZE];

	page_make(wanted, 4 + 8 * number);
	return !disk_page_read(&disk, store, index, page) &&
	       !memcmp(page, wanted, ZM_PAGE_SIZE);
}

/* -- Writes ------------------------------------------------------------------ */

static void try_write(u32 mode, u32 check_writes, bool first_checks,
		      enum fault fault)
{
	struct zm_store *store = open_store(mode, check_writes, first_checks);
	/* Only where the codec met its owner's page is it given a second one. */
	u32 calls = mode == ZM_MELD_OFF ? 2 : 1;

	put(store, 0, 1);
	EXPECT(encoded_first == 1 && !test_stats(store).encode_errors && !test_info(store, 0).huge);
	fault_first = fault;
	encoded_first = 0;
	put(store, 1, 2);
	EXPECT(encoded_first == calls && test_stats(store).encode_errors == 1);
	EXPECT(test_info(store, 1).huge);
	/* It replaces what was there; its twin is right as well. */
	put(store, 0, 3);
	put(store, 2, 3);
	EXPECT(gives(store, 0, 3) && gives(store, 1, 2) && gives(store, 2, 3));
	fault_first = FAULT_NONE;
	put(store, 1, 4);
	EXPECT(!test_info(store, 1).huge && gives(store, 1, 4));
	close_store(store);
}

/* Without the check the fault goes to the reader: these faults are faults. */
static void try_unchecked(u32 check_writes, bool first_checks, enum fault fault)
{
	struct zm_store *store = open_store(ZM_MELD_OFF, check_writes,
					    first_checks);

	fault_first = fault;
	put(store, 0, 1);
	EXPECT(encoded_first == 1 && !test_stats(store).encode_errors && !test_info(store, 0).huge);
	EXPECT(!gives(store, 0, 1));
	/* It may be switched on, and off, at any time. */
	EXPECT(!zm_store_check_writes_set(store, ZM_CHECK_WRITES_ON));
	put(store, 0, 1);
	EXPECT(test_stats(store).encode_errors == 1 && gives(store, 0, 1));
	EXPECT(zm_store_check_writes_set(store, 3) == -EINVAL);
	EXPECT(!zm_store_check_writes_set(store, ZM_CHECK_WRITES_OFF));
	put(store, 1, 1);
	EXPECT(test_stats(store).encode_errors == 1 && !gives(store, 1, 1));
	zm_store_destroy(store);
}

/*
 * The page's owner changes it while it is written: it is stored as it was at one
 * moment, compressed, and no fault of the codec's is counted; one that there is
 * even so is.
 */
static void try_changing(enum fault fault, u32 changes)
{
	struct zm_store *store = open_store(ZM_MELD_OFF, ZM_CHECK_WRITES_ON,
					    false);
	u8 page[ZM_PAGE_SIZE], wanted[ZM_PAGE_SIZE];

	fault_first = fault;
	changes_left = changes;
	put(store, 0, 1);
	changes_left = 0;
	EXPECT(encoded_first == 2);
	EXPECT(test_stats(store).encode_errors == (fault != FAULT_NONE));
	EXPECT(test_info(store, 0).huge == (fault != FAULT_NONE));
	page_make(wanted, 4 + 8 * 1);
	wanted[100]++;
	EXPECT(!zm_page_read(store, 0, page));
	EXPECT(!memcmp(page, wanted, ZM_PAGE_SIZE));
	close_store(store);
}

/*
 * A page is kept as it is where an object would take as much of the pool, and where it
 * would take a byte less it is not.
 */
static void try_sizes(void)
{
	struct zm_store *store = open_store(ZM_MELD_OFF, ZM_CHECK_WRITES_OFF,
					    false);
	struct zm_pool *pool = zm_port_pool_create();
	u32 whole = zm_port_pool_class(pool, ZM_PAGE_SIZE);
	struct zm_slot_info info;
	u32 least = 1, kept = 0;

	while (zm_port_pool_class(pool, least) < whole)
		least++;
	EXPECT(least < ZM_PAGE_SIZE);
	for (size_first = 1; size_first <= 2 * ZM_PAGE_SIZE; size_first++) {
		/* All around what decides, of the rest some. */
		if (size_first % (ZM_PAGE_SIZE / 128) && size_first - least + 2 > 4 &&
		    size_first - ZM_PAGE_SIZE + 2 > 4)
			continue;
		put(store, 0, 1);
		info = test_info(store, 0);
		EXPECT(info.huge == (size_first >= least));
		EXPECT(info.size == (info.huge ? ZM_PAGE_SIZE : size_first));
		kept += info.huge;
		EXPECT(test_stats(store).raw_since == kept);
	}
	size_first = 0;
	zm_port_pool_destroy(pool);
	zm_store_destroy(store);
}

/* -- Recompression ----------------------------------------------------------- */

/* The object stays that there was, of a slot or of a share, and is not tried again. */
static void try_recompress(u32 check_writes, bool shared, enum fault fault)
{
	struct zm_store *store = open_store(ZM_MELD_MANUAL, check_writes, false);
	struct zm_recompress_result result;
	struct zm_slot_info before;

	put(store, 0, 1);
	put(store, 1, shared ? 1 : 2);
	EXPECT(test_meld(store).pages_melded == shared);
	before = test_info(store, 0);
	fault_second = fault;
	result = test_recompress(store);
	EXPECT(result.pages_tried == (shared ? 1 : 2));
	EXPECT(!result.pages_recompressed && !result.pages_damaged);
	EXPECT(test_stats(store).encode_errors == result.pages_tried);
	EXPECT(encoded_second == result.pages_tried);
	EXPECT(test_info(store, 0).priority == 0);
	EXPECT(test_info(store, 0).size == before.size);
	EXPECT(gives(store, 0, 1) && gives(store, 1, shared ? 1 : 2));
	EXPECT(!test_recompress(store).pages_tried);
	/* What is right is taken. */
	fault_second = FAULT_NONE;
	put(store, 2, 3);
	EXPECT(test_recompress(store).pages_recompressed == 1);
	EXPECT(test_info(store, 2).priority == 1 && gives(store, 2, 3));
	close_store(store);
}

/* Off means off: a bad object takes the place of the good one. */
static void try_recompress_unchecked(void)
{
	struct zm_store *store = open_store(ZM_MELD_OFF, ZM_CHECK_WRITES_OFF,
					    true);

	put(store, 0, 1);
	fault_second = FAULT_BYTE;
	EXPECT(test_recompress(store).pages_recompressed == 1);
	EXPECT(!test_stats(store).encode_errors && !gives(store, 0, 1));
	zm_store_destroy(store);
}

int main(void)
{
	u32 mode;
	int fault;

	EXPECT(zm_codec_find("zword")->check_writes);
	EXPECT(!zm_codec_find("lz4")->check_writes);
	for (fault = FAULT_BYTE; fault < FAULTS; fault++) {
		for (mode = ZM_MELD_OFF; mode <= ZM_MELD_INLINE; mode++) {
			try_write(mode, ZM_CHECK_WRITES_ON, false, fault);
			try_write(mode, ZM_CHECK_WRITES_AUTO, true, fault);
		}
		try_unchecked(ZM_CHECK_WRITES_AUTO, false, fault);
		try_unchecked(ZM_CHECK_WRITES_OFF, true, fault);
		try_changing(fault, 1);
		try_changing(fault, 2);
		try_recompress(ZM_CHECK_WRITES_AUTO, false, fault);
		try_recompress(ZM_CHECK_WRITES_AUTO, true, fault);
		try_recompress(ZM_CHECK_WRITES_ON, false, fault);
	}
	try_changing(FAULT_NONE, 1);
	try_changing(FAULT_NONE, 2);
	try_recompress_unchecked();
	try_sizes();
	printf("check_writes: pages that a codec encodes wrongly come back: ok\n");
	return 0;
}

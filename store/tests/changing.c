// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Pages that change while they are written or read into, as their owner can
 * have them mapped: by O_DIRECT, by a guest that reuses a buffer in flight.
 *
 *	changing [writes]
 *
 * What is stored may be of before or after, but it is one page from then on: it
 * has its fingerprint, every read gives the same, no pass, recompression or
 * writeback finds it damaged. The change is made from inside the codec, which is
 * between hashing and compressing; and from a second thread, wherever it comes.
 *
 * The second thread's race is the point of the test, so it is not for the thread
 * sanitizer.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "disk.h"
#include "harness.h"

#define SLOTS 16

static const struct zm_codec_ops *real;
static struct zm_codec_ops hooked;
static u8 shared[ZM_PAGE_SIZE];	/* the page that changes */
static bool change_in_codec;
static u32 over;
static struct disk disk;

static void change(u64 number)
{
	u64 i;

	for (i = 0; i < ZM_PAGE_SIZE / 8; i += 16)
		zm_set64((u64 *)shared + i, number * 0x9e3779b97f4a7c15ull + i);
}

static int hooked_compress(void *ctx, const struct zm_codec_params *params,
			   const void *src, size_t src_size,
			   void *dst, size_t *dst_size)
{
	if (change_in_codec)
		change(zm_get64(shared) | 1);
	return real->compress(ctx, params, src, src_size, dst, dst_size);
}

static int hooked_decompress(void *ctx, const struct zm_codec_params *params,
			     const void *src, size_t src_size,
			     void *dst, size_t dst_size)
{
	int err = real->decompress(ctx, params, src, src_size, dst, dst_size);

	if (change_in_codec)
		change(zm_get64(shared) | 1);
	return err;
}

static struct zm_store *open_store(const char *codec, u32 mode, bool verify)
{
	struct zm_store_options options = test_options(codec, SLOTS, mode);

	options.verify = verify;
	real = options.codecs[0].ops;
	hooked = *real;
	hooked.compress = hooked_compress;
	hooked.decompress = hooked_decompress;
	options.codecs[0].ops = &hooked;
	test_codec(&options, 1, "zstd");
	return test_store(&options, DISK_BLOCKS);
}

/* Everything that looks at what is stored, with nothing that changes. */
static void look(struct zm_store *store, const char *when)
{
	u8 first[SLOTS][ZM_PAGE_SIZE], again[ZM_PAGE_SIZE];
	struct disk_write write = { 0 };
	struct zm_stats stats;
	u64 i;
	int err;

	for (i = 0; i < SLOTS; i++) {
		err = zm_page_read(store, i, first[i]);
		if (err)
			DIE("%s: slot %llu: %d", when, i, err);
	}
	check_store(store, ZM_CHECK_CONTENTS, when, 0);
	test_meld(store);
	if (test_recompress(store).pages_damaged)
		DIE("%s: recompression found damage", when);
	for (i = 0; i < SLOTS; i += 5) {
		err = disk_write_begin(&disk, store, &write, i, 0, i % 2);
		if (err && err != -ENOENT)
			DIE("%s: writeback: %d", when, err);
		if (!err)
			disk_write_end(&disk, store, &write, true);
	}
	for (i = 0; i < SLOTS; i++)
		if (disk_page_read(&disk, store, i, again) ||
		    memcmp(first[i], again, ZM_PAGE_SIZE))
			DIE("%s: slot %llu reads other bytes", when, i);
	zm_store_stats(store, &stats);
	if (stats.mismatches || stats.damaged)
		DIE("%s: damage was seen", when);
}

/* Text, raw bytes, and one word over and over: what a change can be caught in. */
static void fill(u64 number)
{
	page_make(shared, number * 8 + (number % 3 == 0 ? 1 : 4));
	if (number % 3 == 2)
		memset(shared, 0, sizeof(shared));
}

static void try_in_codec(const char *codec, u32 mode, bool verify)
{
	struct zm_store *store = open_store(codec, mode, verify);
	u64 i;

	for (i = 0; i < 4 * SLOTS; i++) {
		fill(i);
		change_in_codec = i % 4;
		test_write(store, i % SLOTS, shared);
	}
	change_in_codec = false;
	look(store, "changed inside the codec");
	/* A page that is read into is its owner's as well. */
	for (i = 0; i < SLOTS; i++) {
		zm_page_discard(store, i);
		fill(3 * i + 1);
		test_write(store, i, shared);
		change_in_codec = true;
		if (zm_page_read(store, i, shared))
			DIE("a page that its reader changed is an error");
		change_in_codec = false;
	}
	look(store, "changed while it was read into");
	zm_store_destroy(store);
}

static void *changer(void *arg)
{
	u64 number = 1;

	(void)arg;
	while (!zm_load32(&over))
		change(number++);
	return NULL;
}

static void try_threads(const char *codec, u32 mode, bool verify, u64 writes)
{
	struct zm_store *store = open_store(codec, mode, verify);
	pthread_t thread;
	u64 i;

	over = 0;
	fill(1);
	if (pthread_create(&thread, NULL, changer, NULL))
		DIE("no thread");
	for (i = 0; i < writes; i++) {
		test_write(store, i % SLOTS, shared);
		if (zm_page_read(store, i % SLOTS, shared))
			DIE("a page that changed while it was written is damaged");
	}
	zm_set32(&over, 1);
	pthread_join(thread, NULL);
	look(store, "changed by another thread");
	zm_store_destroy(store);
}

/*
 * Pages from the backing device, whose reader changes the page that they are read
 * into from the moment it was asked for: where the store looks at what was read,
 * it has asked for other memory.
 */
static void try_backed(const char *codec, bool verify, bool keep_compressed)
{
	struct zm_store *store = open_store(codec, ZM_MELD_MANUAL, verify);
	u8 expected[ZM_PAGE_SIZE], read[ZM_PAGE_SIZE];
	struct disk_write write = { 0 };
	struct zm_backed backed;
	u64 i;

	for (i = 0; i < SLOTS; i++) {
		page_make(expected, 8 * i + (i % 3 == 0 ? 1 : 4));
		if (zm_page_write(store, i, expected) ||
		    disk_write_begin(&disk, store, &write, i, 0,
				     keep_compressed))
			DIE("writeback");
		disk_write_end(&disk, store, &write, true);
		if (zm_page_read_begin(store, i, shared, &backed) != ZM_BACKED)
			DIE("it is not backed");
		memcpy(read, disk_block(&disk, backed.block), ZM_PAGE_SIZE);
		if (!backed.apart)
			memcpy(shared, read, ZM_PAGE_SIZE);
		change(i);
		change_in_codec = true;
		if (zm_page_read_end(store, &backed,
				     backed.apart ? read : shared, shared, 0))
			DIE("%s: a page that its reader changed is an error",
			    codec);
		change_in_codec = false;
		if (disk_page_read(&disk, store, i, read) ||
		    memcmp(read, expected, ZM_PAGE_SIZE))
			DIE("%s: slot %llu reads other bytes", codec, i);
	}
	zm_store_destroy(store);
}

static void try_writes(const char *codec, u64 writes)
{
	u32 mode;

	for (mode = ZM_MELD_OFF; mode <= ZM_MELD_INLINE; mode++) {
		try_in_codec(codec, mode, true);
		try_threads(codec, mode, true, writes);
	}
	/* No copy is made: the codec itself meets what changes. */
	try_in_codec(codec, ZM_MELD_OFF, false);
	try_threads(codec, ZM_MELD_OFF, false, writes);
}

/* What `codec` is, and what is changed while it works. */
static void try_codec(const char *codec, u64 writes)
{
	u32 mode;

	try_writes(codec, writes);
	/* A write that waits for room begins anew, with another page. */
	zm_fault_scarce_set(true);
	try_writes(codec, writes);
	zm_fault_scarce_set(false);
	for (mode = 0; mode < 4; mode++)
		try_backed(codec, mode & 1, mode & 2);
}

int main(int argc, char **argv)
{
	static const char *const codecs[] = { "lz4", "lzo-rle", "zstd",
					      "deflate", "zword" };
	const u32 count = sizeof(codecs) / sizeof(*codecs);
	u64 writes = argc > 1 ? strtoull(argv[1], NULL, 0) : 3000;
	u32 i;

	for (i = 0; i < count; i++)
		try_codec(codecs[i], writes);
	printf("changing: %u codecs, 4 modes, %llu writes each: ok\n", count,
	       writes);
	return 0;
}

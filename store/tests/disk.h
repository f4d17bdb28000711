/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A backing device in memory, for the store's tests: blocks, and requests under
 * way that the test ends when it likes, well or badly.
 *
 * A block is scribbled over as soon as something is to be written to it, and
 * read only when the read ends: whoever is given a block that another still
 * needs, or gives one back too early, reads bytes that nobody wrote.
 */
#ifndef ZM_TESTS_DISK_H
#define ZM_TESTS_DISK_H

#include "harness.h"

#define DISK_BLOCKS	20
#define DISK_REQUESTS	6

struct disk_write {
	bool active;
	struct zm_writeback wb;
	u8 bytes[ZM_PAGE_SIZE];
};

struct disk_read {
	bool active;
	struct zm_backed backed;
	u64 index;
	u8 expected[ZM_PAGE_SIZE];	/* the page when the read began */
};

struct disk {
	u8 blocks[DISK_BLOCKS][ZM_PAGE_SIZE];
	struct disk_write writes[DISK_REQUESTS];
	struct disk_read reads[DISK_REQUESTS];
};

static inline u8 *disk_block(struct disk *disk, u64 block)
{
	if (block >= DISK_BLOCKS)
		DIE("block %llu of %u", block, DISK_BLOCKS);
	return disk->blocks[block];
}

/* A page of the store, wherever it stands. */
static inline int disk_page_read(struct disk *disk, struct zm_store *store,
				 u64 index, u8 *page)
{
	struct zm_backed backed;
	int ret = zm_page_read_begin(store, index, page, &backed);

	if (ret != ZM_BACKED)
		return ret;
	return zm_page_read_end(store, &backed,
				disk_block(disk, backed.block), page, 0);
}

static inline struct disk_write *disk_write_free(struct disk *disk)
{
	u32 i;

	for (i = 0; i < DISK_REQUESTS; i++)
		if (!disk->writes[i].active)
			return &disk->writes[i];
	return NULL;
}

static inline struct disk_read *disk_read_free(struct disk *disk)
{
	u32 i;

	for (i = 0; i < DISK_REQUESTS; i++)
		if (!disk->reads[i].active)
			return &disk->reads[i];
	return NULL;
}

/*
 * What goes to the device is all of the page's own: behind compressed bytes there is
 * nothing, and not what the memory held before.
 */
static inline void disk_expect_nothing_behind(const struct disk_write *write)
{
	u32 at;

	for (at = write->wb.size; at < ZM_PAGE_SIZE; at++)
		if (write->bytes[at])
			DIE("byte %u of a block is of other memory", at);
}

/* Begins to write a page back; as zm_writeback_begin(). pre: write is free. */
static inline int disk_write_begin(struct disk *disk, struct zm_store *store,
				   struct disk_write *write, u64 index,
				   u32 which, bool keep_compressed)
{
	int err;

	memset(write->bytes, 0x5c, ZM_PAGE_SIZE);
	err = zm_writeback_begin(store, index, which, keep_compressed,
				 &write->wb, write->bytes);
	if (err)
		return err;
	disk_expect_nothing_behind(write);
	write->active = true;
	memset(disk_block(disk, write->wb.block), 0xa5, ZM_PAGE_SIZE);
	return 0;
}

/* Ends it; as zm_writeback_end(). pre: active. */
static inline bool disk_write_end(struct disk *disk, struct zm_store *store,
				  struct disk_write *write, bool written)
{
	if (written)
		memcpy(disk_block(disk, write->wb.block), write->bytes,
		       ZM_PAGE_SIZE);
	write->active = false;
	return zm_writeback_end(store, &write->wb, written);
}

/* Begins to read; the page if it is not backed. pre: read is free. */
static inline int disk_read_begin(struct zm_store *store,
				  struct disk_read *read, u64 index, u8 *page)
{
	int ret = zm_page_read_begin(store, index, page, &read->backed);

	read->active = ret == ZM_BACKED;
	read->index = index;
	return ret;
}

/* Ends it: the page comes from the block as it is now. pre: active. */
static inline int disk_read_end(struct disk *disk, struct zm_store *store,
				struct disk_read *read, int io_err, u8 *page)
{
	u8 apart[ZM_PAGE_SIZE];
	u8 *bytes = read->backed.apart ? apart : page;

	memcpy(bytes, disk_block(disk, read->backed.block), ZM_PAGE_SIZE);
	read->active = false;
	return zm_page_read_end(store, &read->backed, bytes, page, io_err);
}

#endif /* ZM_TESTS_DISK_H */

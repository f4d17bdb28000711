// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * zword with small limits, of pages that change at any of the encoder's reads.
 *
 *	small_reads [pages [seed]]
 *
 * The codec is compiled as for the thread sanitizer, which has it call a function
 * before each read and write; those functions are here. So each read of the page is a
 * place where the page becomes another one, for good or for that read alone: each page
 * is encoded once for each of its reads and each kind of change, then often with
 * changes at random reads. What comes out is an object of some page. No read or write,
 * of either direction, is outside of what was given.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "small_scope.h"

/* One mapping, with memory around each region that nothing may touch. */
#define REGION_ROOM	(1u << 15)

enum { PAGE, OBJECT, BACK, WORK, REGIONS };

static struct region {
	u8 *at;
	u32 size;
} regions[REGIONS];
static u8 *mapping;

/* What becomes of the page at a read. */
enum change {
	OTHER_PAGE,	/* another page, for good */
	OTHER_BYTES,	/* what is read is what stands elsewhere, for good */
	OTHER_ONCE,	/* one bit of what is read, until the next read */
	CHANGES,
};

static struct rng rng;
static u8 *base, *other;	/* both pages */
static u64 reads, change_at, accesses;
static u32 chance;		/* of a change at any read; 0: at one read */
static enum change kind;
static u8 *flipped;
static bool is_encoding;

/* It ends where memory ends that can be touched at all. */
static void region_size(u32 number, u32 size)
{
	u8 *end = mapping + (number + 1) * REGION_ROOM - 4096;

	regions[number] = (struct region){ end - size, size };
}

static void regions_make(void)
{
	u32 size = REGIONS * REGION_ROOM, k;

	mapping = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mapping == MAP_FAILED)
		DIE("no memory");
	for (k = 0; k < REGIONS; k++) {
		region_size(k, 0);
		if (mprotect(regions[k].at, 4096, PROT_NONE))
			DIE("no guards");
	}
	region_size(WORK, sizeof(struct zword_encoding) >
			  sizeof(struct zword_word_memory) ?
			  sizeof(struct zword_encoding) :
			  sizeof(struct zword_word_memory));
}

static void page_change(u8 *read, u32 size)
{
	struct region *page = &regions[PAGE];
	u32 from;

	switch (kind) {
	case OTHER_PAGE:
		memcpy(page->at, other, page->size);
		return;
	case OTHER_BYTES:
		from = rng_below(&rng, page->size - size);
		memmove(read, page->at + from, size);
		return;
	default:
		flipped = read + rng_below(&rng, size);
		*flipped ^= 1;
	}
}

static void access_check(const u8 *at, u32 size, bool is_write)
{
	size_t offset = (size_t)(at - mapping);
	const struct region *region;

	accesses++;
	/* Tables and the stack. */
	if (offset >= REGIONS * REGION_ROOM)
		return;
	region = &regions[offset / REGION_ROOM];
	if (at < region->at || at + size > region->at + region->size)
		DIE("%s of %u bytes at %td of %u, region %td",
		    is_write ? "a write" : "a read", size, at - region->at,
		    region->size, region - regions);
	if (is_write && region == &regions[is_encoding ? PAGE : OBJECT])
		DIE("what is read is written to");
}

static void on_read(u8 *at, u32 size)
{
	struct region *page = &regions[PAGE];

	access_check(at, size, false);
	if (!is_encoding || at < page->at || at >= page->at + page->size)
		return;
	if (flipped)
		*flipped ^= 1;
	flipped = NULL;
	if (chance ? !rng_below(&rng, chance) : reads == change_at)
		page_change(at, size);
	reads++;
}

#define HOOKS(size)							\
	void __tsan_read##size(void *at);				\
	void __tsan_read##size(void *at) { on_read(at, size); }		\
	void __tsan_unaligned_read##size(void *at);			\
	void __tsan_unaligned_read##size(void *at) { on_read(at, size); } \
	void __tsan_write##size(void *at);				\
	void __tsan_write##size(void *at) { access_check(at, size, true); } \
	void __tsan_unaligned_write##size(void *at);			\
	void __tsan_unaligned_write##size(void *at)			\
	{								\
		access_check(at, size, true);				\
	}

HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

void __tsan_init(void);
void __tsan_func_entry(void *from);
void __tsan_func_exit(void);
void __tsan_read_range(void *at, size_t size);
void __tsan_write_range(void *at, size_t size);

void __tsan_init(void)
{
}

void __tsan_func_entry(void *from)
{
	(void)from;
}

void __tsan_func_exit(void)
{
}

void __tsan_read_range(void *at, size_t size)
{
	on_read(at, (u32)size);
}

void __tsan_write_range(void *at, size_t size)
{
	access_check(at, (u32)size, true);
}

/* How a page is encoded: at a level, or a block of it in a mode. */
struct way {
	int level;	/* 0: in a mode */
	u32 mode;
	bool thoroughly;
};

static const struct way ways[] = {
	{ 1, 0, false }, { 2, 0, false },
	{ 0, ZWORD_WORDS_64, false }, { 0, ZWORD_WORDS_64, true },
	{ 0, ZWORD_WORDS_32, false }, { 0, ZWORD_WORDS_32, true },
	{ 0, ZWORD_BYTES, false }, { 0, ZWORD_BYTES, true },
};

#define WAYS	(sizeof(ways) / sizeof(*ways))

/* The bytes of the object; 0: there is no room. */
static u32 encode(const struct way *way, u32 capacity)
{
	struct zword_encoding *work = (void *)regions[WORK].at;
	size_t used = capacity;
	u32 size;

	region_size(OBJECT, capacity);
	reads = 0;
	flipped = NULL;
	is_encoding = true;
	if (way->level) {
		if (zword_compress(tables, (void *)work, way->level,
				   regions[PAGE].at, regions[PAGE].size,
				   regions[OBJECT].at, &used))
			used = 0;
		size = (u32)used;
	} else {
		block_parse(work, way->mode, way->thoroughly, regions[PAGE].at, 0);
		size = block_write(work, way->mode, (u32)rng_next(&rng) %
						  zword_sets_of(way->mode),
				   regions[OBJECT].at, capacity);
	}
	is_encoding = false;
	return size;
}

/*
 * What came out is some page, whatever became of the one that went in. False: there
 * is nothing that a decoder takes.
 */
static bool decode(const struct way *way, u32 used)
{
	u32 size = regions[PAGE].size;
	u8 object[BLOCKS_MAX * ROOM];

	if (!used || used > size / BLOCK * (BLOCK + 8))
		return false;
	memcpy(object, regions[OBJECT].at, used);
	region_size(OBJECT, used);
	memcpy(regions[OBJECT].at, object, used);
	if (!zword_decompress(tables, (void *)regions[WORK].at,
			      regions[OBJECT].at, used, regions[BACK].at, size))
		return true;
	for (u32 k = 0; k < size; k++)
		fprintf(stderr, "%02x%02x%s", base[k], other[k],
			k % 16 == 15 ? "\n" : " ");
	DIE("level %d, mode %u, %s, change %d at read %llu: what comes out is no "
	    "page", way->level, way->mode,
	    way->thoroughly ? "thorough" : "quick", kind, change_at);
}

static void page_set(void)
{
	memcpy(regions[PAGE].at, base, regions[PAGE].size);
}

/* At each read, each change; then at many reads of one encoding. */
static u64 way_try(const struct way *way, u32 room)
{
	u64 all, tried = 0;
	u32 used, k;

	change_at = ~0ull;
	chance = 0;
	page_set();
	used = encode(way, room);
	all = reads;
	if (decode(way, used) &&
	    memcmp(regions[BACK].at, base, regions[PAGE].size))
		DIE("level %d, mode %u: another page comes back", way->level,
		    way->mode);
	for (kind = 0; kind < CHANGES; kind++)
		for (change_at = 0; change_at < all; change_at++, tried++) {
			page_set();
			decode(way, encode(way, room));
		}
	for (k = 0; k < 64; k++, tried++) {
		kind = rng_below(&rng, CHANGES);
		chance = 1 + rng_below(&rng, 32);
		page_set();
		decode(way, encode(way, k % 2 ? room : BLOCK / 2));
	}
	return tried;
}

int main(int argc, char **argv)
{
	u64 pages = argc > 1 ? strtoull(argv[1], NULL, 0) : 1000;
	u8 pair[2][BLOCKS_MAX * BLOCK];
	u64 k, tried = 0;

	rng.state = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	tables_make();
	regions_make();
	for (k = 0; k < pages; k++) {
		u32 size = BLOCK * (k % 8 ? 1 : 2);

		base = pair[0];
		other = pair[1];
		page_random(&rng, base, size);
		page_random(&rng, other, size);
		/* Where a little changes, much stays as it was found. */
		if (k % 2)
			memcpy(other, base, rng_below(&rng, size));
		region_size(PAGE, size);
		region_size(BACK, size);
		for (u32 w = 0; w < WAYS; w++)
			if (ways[w].level || size == BLOCK)
				tried += way_try(&ways[w], size / BLOCK * ROOM);
	}
	printf("small_reads: blocks of %u, %llu pages, %llu changes, %llu reads and "
	       "writes seen: ok\n",
	       BLOCK, pages, tried, accesses);
	if (tried < pages * WAYS || !accesses)
		DIE("no read was seen");
	free(tables);
	return 0;
}

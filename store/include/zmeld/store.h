/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The page store: pages in, compressed and melded, the same pages out.
 *
 * Words
 *   page         the ZM_PAGE_SIZE bytes that the user sees
 *   slot         what stands for a page in the table, 16 bytes
 *   object       stored bytes: a compressed page, or a raw one
 *   handle       names an object in the pool
 *   share        an object that several slots use, with its count
 *   fingerprint  keyed hash of the raw page, 32 bits, kept in the slot
 *   pass         finds all identical pages and makes them share one object
 *   priority     of a codec: 0 compresses what is written, 1 to 3 recompress
 *   idle         not read or written since it was marked so
 *   block        a page's room on a backing device
 *   backed       of a page: it stands in a block and no longer in the pool
 *
 * Invariants
 *   1. A read returns exactly the bytes of the last completed write to that
 *      page, or an error. Never other bytes.
 *   2. Two pages are melded only after their bytes were compared.
 *   3. An object is freed once, when its last slot lets go of it, or when
 *      something else has taken its place: its recompressed form, a block. A
 *      block is free again when no slot, no reader and no writer needs it.
 *   4. A write that fails leaves the previous contents readable.
 *   5. Discards work from atomic context and are never lost. Nothing sleeps
 *      under a slot's lock or a share's. Two slots are locked in order of
 *      their index, a share after the slots.
 *   6. Every counter can be recomputed from the slots: zm_store_check().
 *
 * Functions return 0 or -errno. All may be called by many threads at once
 * except where a line says "exclusive".
 */
#ifndef ZMELD_STORE_H
#define ZMELD_STORE_H

#include <zmeld/codec.h>

struct zm_store;

enum zm_meld_mode {
	ZM_MELD_OFF,	/* no fingerprints: what zram does */
	ZM_MELD_MANUAL,	/* fingerprints; melding when a pass is started */
	ZM_MELD_AUTO,	/* inline melding, on while the hit rate pays for it */
	ZM_MELD_INLINE,	/* each write looks for its twin first */
};

/* What a codec encoded is decoded and compared with the page before it is used. */
enum zm_check_writes {
	ZM_CHECK_WRITES_AUTO,	/* where the codec asks for it, or recompresses */
	ZM_CHECK_WRITES_ON,
	ZM_CHECK_WRITES_OFF,
};

#define ZM_KEY_SIZE 16

struct zm_store_options {
	u64 slots;		/* pages that the store can hold */
	u64 memory_limit;	/* bytes of pool memory; 0: no limit */
	u32 mode;		/* enum zm_meld_mode */
	u32 streams;		/* contexts; 0: one for each processor */
	u32 check_writes;	/* enum zm_check_writes */
	bool verify;		/* check fingerprints on every read */
	bool keyed;		/* key is given; otherwise it is random */
	u8 key[ZM_KEY_SIZE];	/* of the fingerprints */
	/* By priority, before zm_codec_setup(); there is always a first. */
	struct zm_codec_choice codecs[ZM_PRIORITIES];
};

/*
 * -EINVAL: slots is 0 or above ZM_SLOTS_MAX, no such mode or check_writes, there
 * is no first codec, or one refuses its params; -ENOMEM. May sleep.
 */
int zm_store_create(const struct zm_store_options *options,
		    struct zm_store **store);
/*
 * Exclusive: every writeback and every read that was begun has ended. Takes
 * NULL. May sleep.
 */
void zm_store_destroy(struct zm_store *store);

#define ZM_SLOTS_MAX (1ull << 32)

/* -- Pages ---------------------------------------------------------------- */

/*
 * -EINVAL: no such slot; -ENOMEM: no memory, or limit reached. After an error
 * the slot holds what it held before. May sleep.
 */
int zm_page_write(struct zm_store *store, u64 index, const void *page);
/*
 * A page never written, or discarded, reads as zeros. -EINVAL: no such slot;
 * -EBADMSG: the object is damaged (page then holds garbage); -EREMOTE: the
 * page is backed, so it takes zm_page_read_begin(). May sleep.
 */
int zm_page_read(struct zm_store *store, u64 index, void *page);
/* Forgets the page. No such slot: nothing happens. Atomic. */
void zm_page_discard(struct zm_store *store, u64 index);

/* -- Melding -------------------------------------------------------------- */

struct zm_meld_options {
	/* Run only if the sampled share of duplicates is at least this. */
	u32 threshold_permille;
	/* Bytes the pass may borrow, of which it uses 16 a stored page; 0: 8. */
	u64 memory_max;
	/* Stop after this long; 0: no limit. */
	u64 time_ns_max;
	/* Go on where a stopped pass left off. */
	bool resume;
	/* Only estimate. */
	bool estimate_only;
	/*
	 * zm_pass_stops() from before anybody could know of this pass: a stop
	 * since then ends it. 0: a stop since the call.
	 */
	u64 stops_seen;
};

struct zm_meld_result {
	u64 pages_stored;		/* with a fingerprint */
	u64 pages_unfingerprinted;	/* written while melding was off */
	u64 pages_sampled;
	u64 duplicates_sampled;		/* pages that melding would drop */
	u64 candidates;			/* pages compared with another */
	u64 pages_melded;		/* objects dropped by this pass */
	u64 bytes_saved;		/* their stored bytes */
	u64 bytes_metadata;		/* spent on new shares */
	u64 collisions;			/* same fingerprint, other bytes */
	u64 raced;			/* changed while the pass ran */
	u64 memory_borrowed;		/* bytes, at the most at one time */
	u64 rounds;			/* sweeps it took within memory_max */
	u64 time_sample_ns;
	u64 time_find_ns;
	u64 time_meld_ns;
	u64 pages_backed;		/* candidates passed over: no I/O here */
	u64 pages_crowded;		/* too many others have its fingerprint */
	bool below_threshold;		/* not run: not worth it */
	bool stopped;			/* by zm_pass_stop() or time */
};

/*
 * Of pages that differ and have the same fingerprint, the first ZM_LEADERS_MAX
 * are compared with each page of it, the others (pages_crowded) are not.
 *
 * -EBUSY: a pass or recompression runs already; -ENOMEM; -EUCLEAN: a broken
 * invariant. May sleep.
 */
int zm_meld_run(struct zm_store *store, const struct zm_meld_options *options,
		struct zm_meld_result *result);
/*
 * Chance does not come so far: of 200,000 stores with 2^32 different pages, one
 * has a fingerprint that 17 of them share.
 */
#define ZM_LEADERS_MAX 16
/*
 * Asks what runs for long (a pass, recompression, marking idle pages) to stop.
 * It does so within a few milliseconds, whatever the pages. Atomic.
 */
void zm_pass_stop(struct zm_store *store);
/* How many stops were asked for; never 0. Atomic. */
u64 zm_pass_stops(struct zm_store *store);
/* -EINVAL: no such mode; -ENOMEM. May sleep. */
int zm_meld_mode_set(struct zm_store *store, u32 mode);

/* -- Idle pages, recompression -------------------------------------------- */

/* Which pages; several together mean those that are all of it. 0: any. */
enum zm_pick {
	ZM_PICK_IDLE = 1,		/* no sharer accessed it since marked */
	ZM_PICK_HUGE = 2,		/* stored raw */
	ZM_PICK_INCOMPRESSIBLE = 4,	/* no codec of this store helped */
};

/*
 * Marks pages idle that were not accessed for the last age_s seconds, and all
 * others as not idle; 0: marks all. Pages without an object in the pool
 * (same-filled, backed) are never idle. stops_seen: as in zm_meld_options.
 * -EINTR: stopped, some are marked, of a share perhaps not for all its slots.
 * May sleep.
 */
int zm_idle_mark(struct zm_store *store, u32 age_s, u64 stops_seen);

struct zm_recompress_options {
	u32 which;		/* ZM_PICK_IDLE, ZM_PICK_HUGE; 0: any */
	u32 size_min;		/* bytes; an object below it is small enough */
	u64 pages_max;		/* objects to try, the largest; 0: all */
	u32 priority;		/* of the codec to try, 1 or above */
	u64 stops_seen;		/* as in zm_meld_options */
};

struct zm_recompress_result {
	u64 pages_tried;	/* objects decompressed and compressed anew */
	u64 pages_recompressed;	/* of them replaced, a share counted once */
	u64 pages_incompressible; /* of them marked not to be tried again */
	u64 pages_damaged;	/* of them unreadable: left as they are */
	u64 bytes_before;	/* of the replaced objects */
	u64 bytes_after;
	u64 raced;		/* changed meanwhile */
	bool stopped;		/* by zm_pass_stop() */
};

/*
 * Compresses pages again with a codec of higher priority than theirs. An object
 * is replaced where the new one falls into a smaller size class and below
 * size_min, and gives the page back (enum zm_check_writes); where the last codec
 * of the store did not help, the object is marked incompressible and left alone
 * until the page is written again. A share is recompressed once for all its
 * slots.
 *
 * -EINVAL: no codec of that priority, or size_min is above a page; -EBUSY: a pass
 * or recompression runs; -ENOMEM: it went as far as the result says. May sleep.
 */
int zm_recompress_run(struct zm_store *store,
		      const struct zm_recompress_options *options,
		      struct zm_recompress_result *result);

/* -- Writeback: pages on a backing device ---------------------------------- */

#define ZM_BLOCKS_MAX (1ull << 40)

/*
 * The store owns the block numbers, its caller does the I/O. A block has
 * ZM_PAGE_SIZE bytes. -EBUSY: blocks are attached already; -EINVAL: none, or
 * above ZM_BLOCKS_MAX; -ENOMEM. Exclusive with zm_writeback_begin(). May sleep.
 */
int zm_backing_attach(struct zm_store *store, u64 blocks);
/*
 * -EBUSY: blocks are in use. No blocks: nothing happens. Exclusive with
 * zm_writeback_begin(). May sleep.
 */
int zm_backing_detach(struct zm_store *store);

struct zm_share;

/* One page on its way to its block. */
struct zm_writeback {
	u64 block;		/* where to write ZM_PAGE_SIZE bytes */
	u32 size;		/* of what is in it; ZM_PAGE_SIZE: the page */
	u32 priority;		/* of the codec, where it is smaller */
	struct zm_share *share;	/* the store's */
};

/*
 * Takes a page that is `which` (of enum zm_pick) and in the pool: reserves a
 * block and gives what is to be written to it: the page, or with
 * keep_compressed its object, zeros behind it. The page stays readable and
 * writable; every begin that returned 0 has its end. bytes: ZM_PAGE_SIZE.
 *
 * -EINVAL: no such slot; -ENOENT: the page is not, or no longer, what was asked
 * for, or is being written already; -ENOSPC: no block is free; -ENOMEM;
 * -EBADMSG: the object is damaged. May sleep.
 */
int zm_writeback_begin(struct zm_store *store, u64 index, u32 which,
		       bool keep_compressed, struct zm_writeback *wb,
		       void *bytes);
/*
 * Written: the page, with all that share it, stands in the block and its object
 * is freed; or, if nobody needs the page any more, or it is being read in this
 * moment, the block is. Not written: the block is free again, nothing else
 * happened. True where the page went to the block. Atomic.
 */
bool zm_writeback_end(struct zm_store *store, struct zm_writeback *wb,
		      bool written);

#define ZM_BACKED 1

/* One backed page on its way back; keeps the block from being used anew. */
struct zm_backed {
	u64 block;		/* where to read ZM_PAGE_SIZE bytes */
	u32 size;		/* as in zm_writeback */
	u32 priority;
	u32 fingerprint;
	bool fingerprinted;
	/*
	 * Read it into memory that nobody else can change: it is checked or
	 * decompressed then. Else it may be read into the page itself.
	 */
	bool apart;
	struct zm_share *share;	/* the store's */
};

/*
 * As zm_page_read(), but where the page is backed: ZM_BACKED, and *backed tells
 * what to read. Every ZM_BACKED has its zm_page_read_end(). May sleep.
 */
int zm_page_read_begin(struct zm_store *store, u64 index, void *page,
		       struct zm_backed *backed);
/*
 * The block was read to `bytes`, or reading it failed with io_err. Makes the
 * page of it; bytes may be the page, where they are not `apart`. 0; io_err;
 * -EBADMSG: the block does not hold what was written to it. May sleep.
 */
int zm_page_read_end(struct zm_store *store, struct zm_backed *backed,
		     const void *bytes, void *page, int io_err);

/* -- Looking after it ----------------------------------------------------- */

/* Whether reads check fingerprints from now on. Atomic. */
void zm_store_verify_set(struct zm_store *store, bool verify);
/* -EINVAL: no such value of enum zm_check_writes. Atomic. */
int zm_store_check_writes_set(struct zm_store *store, u32 check_writes);
void zm_store_limit_set(struct zm_store *store, u64 bytes);
/* Restarts the high-water mark from what is used now. */
void zm_store_peak_reset(struct zm_store *store);
/* Bytes given back. May sleep. */
u64 zm_store_compact(struct zm_store *store);
/* Bytes that compaction gave back so far, whoever asked for it. Atomic. */
u64 zm_store_compacted(struct zm_store *store);

/* What a share takes beside its object. */
#define ZM_SHARE_BYTES 24

struct zm_stats {
	/* What is held now. */
	u64 pages_stored;	/* slots that hold something */
	u64 pages_same;		/* of them same-filled */
	u64 pages_raw;		/* of them raw in the pool */
	u64 pages_shared;	/* of them in a share */
	u64 pages_backed;	/* of these on the backing device */
	u64 objects;		/* in the pool, shares included */
	u64 shares;		/* those that are backed included */
	u64 bytes_compressed;	/* sum of the objects' sizes */
	u64 bytes_melded;	/* what shared slots would add to it */
	u64 pages_melded;	/* shared, beyond the first of each share */
	u64 memory_used;	/* pool, bytes in whole pages */
	u64 memory_used_max;	/* high-water mark */
	u64 memory_metadata;	/* slots, times, shares, index, blocks, key */
	u64 blocks;		/* of the backing device; 0: none */
	u64 blocks_used;	/* those reserved by writers included */
	/* What was done since the store was made. */
	u64 raw_since;		/* writes of what does not compress, melded or not */
	u64 passes;
	u64 pass_melded;
	u64 inline_probes;	/* writes that asked the index */
	u64 inline_melded;	/* writes that found their twin */
	u64 inline_unchanged;	/* writes of what the slot held already */
	u64 inline_collisions;	/* same fingerprint, other bytes */
	u64 auto_switches;
	u64 encode_errors;	/* objects not used: they did not give the page */
	u64 damaged;		/* objects that did not decompress */
	u64 mismatches;		/* pages that did not have their fingerprint */
	u32 inline_active;	/* auto: whether it is on now */
};

void zm_store_stats(struct zm_store *store, struct zm_stats *stats);

enum zm_check_level {
	ZM_CHECK_SLOTS,		/* every slot is in a legal state */
	ZM_CHECK_COUNTS,	/* and every counter and share count is right */
	ZM_CHECK_CONTENTS,	/* and every page decompresses to its fingerprint */
};

/*
 * Walks everything. 0, or -EUCLEAN with what is wrong in text, a line each.
 * ZM_CHECK_SLOTS runs beside everything and takes no memory. From
 * ZM_CHECK_COUNTS on exclusive, but that reads and writebacks may have begun and
 * not ended; -ENOMEM; -EBUSY while a pass or recompression runs. stops_seen: as in
 * zm_meld_options; -EINTR: stopped. May sleep.
 */
int zm_store_check(struct zm_store *store, u32 level, u64 stops_seen,
		   char *text, size_t text_size);

enum zm_kind {
	ZM_KIND_EMPTY,
	ZM_KIND_SAME,
	ZM_KIND_OBJECT,
	ZM_KIND_SHARE,
};

/* What a slot holds. */
struct zm_slot_info {
	enum zm_kind kind;
	u32 size;		/* stored bytes, in the pool or in the block */
	u32 priority;		/* of the codec that made them */
	u32 sharers;		/* slots that share; 0: not a share */
	u32 fingerprint;
	u32 accessed_s;		/* zm_port_time_s(); 0: never */
	u64 block;		/* backed: the block */
	bool huge;		/* raw, in the pool */
	bool idle;
	bool backed;
	bool incompressible;
};

/* -EINVAL: no such slot. Atomic. */
int zm_slot_info(struct zm_store *store, u64 index, struct zm_slot_info *info);

/* -- Words, as sysfs has them ----------------------------------------------- */

const char *zm_meld_mode_name(u32 mode);
const char *zm_check_writes_name(u32 check_writes);

/* -- Pieces that predictors use as well ------------------------------------ */

/* Whether the page repeats one machine word, and which. */
bool zm_page_fill(const void *page, u64 *word);

/* A fingerprint key, expanded once; see core/fingerprint.c. */
struct zm_fingerprint_key;
struct zm_fingerprint_key *zm_fingerprint_key_create(const u8 *key);
void zm_fingerprint_key_destroy(struct zm_fingerprint_key *key);
u32 zm_fingerprint(const struct zm_fingerprint_key *key, const void *page);

#endif /* ZMELD_STORE_H */

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
 *
 * Invariants
 *   1. A read returns exactly the bytes of the last completed write to that
 *      page, or an error. Never other bytes.
 *   2. Two pages are melded only after their bytes were compared.
 *   3. An object is freed once, when its last slot lets go of it.
 *   4. A write that fails leaves the previous contents readable.
 *   5. Discards work from atomic context and are never lost. Nothing sleeps
 *      under a slot's lock. Two slots are locked in order of their index.
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

#define ZM_KEY_SIZE 16

struct zm_store_options {
	u64 slots;		/* pages that the store can hold */
	u64 memory_limit;	/* bytes of pool memory; 0: no limit */
	u32 mode;		/* enum zm_meld_mode */
	u32 streams;		/* contexts; 0: one for each processor */
	bool verify;		/* check fingerprints on every read */
	bool keyed;		/* key is given; otherwise it is random */
	u8 key[ZM_KEY_SIZE];	/* of the fingerprints */
	const struct zm_codec_ops *codec;
	struct zm_codec_params params;	/* before params_setup() */
};

/*
 * -EINVAL: slots is 0 or above ZM_SLOTS_MAX, or the codec refuses its params;
 * -ENOMEM. May sleep.
 */
int zm_store_create(const struct zm_store_options *options,
		    struct zm_store **store);
/* Exclusive. Takes NULL. May sleep. */
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
 * -EBADMSG: the object is damaged (page then holds garbage). May sleep.
 */
int zm_page_read(struct zm_store *store, u64 index, void *page);
/* Forgets the page. No such slot: nothing happens. Atomic. */
void zm_page_discard(struct zm_store *store, u64 index);

/* -- Melding -------------------------------------------------------------- */

struct zm_meld_options {
	/* Run only if the sampled share of duplicates is at least this. */
	u32 threshold_permille;
	/* Bytes the pass may borrow; 0: 8 for each stored page. */
	u64 memory_max;
	/* Stop after this long; 0: no limit. */
	u64 time_ns_max;
	/* Go on where a stopped pass left off. */
	bool resume;
	/* Only estimate. */
	bool estimate_only;
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
	bool below_threshold;		/* not run: not worth it */
	bool stopped;			/* by zm_meld_stop() or time */
};

/* -EBUSY: a pass runs already; -ENOMEM. May sleep. */
int zm_meld_run(struct zm_store *store, const struct zm_meld_options *options,
		struct zm_meld_result *result);
/* Asks a running pass to stop soon. Atomic. */
void zm_meld_stop(struct zm_store *store);
/* -EINVAL: no such mode; -ENOMEM. May sleep. */
int zm_meld_mode_set(struct zm_store *store, u32 mode);

/* -- Looking after it ----------------------------------------------------- */

void zm_store_limit_set(struct zm_store *store, u64 bytes);
/* Restarts the high-water mark from what is used now. */
void zm_store_peak_reset(struct zm_store *store);
/* Bytes given back. May sleep. */
u64 zm_store_compact(struct zm_store *store);

/* Why requests failed; each reason has a counter and a name. */
enum zm_reason {
	ZM_REASON_BAD_INDEX,	/* no such slot */
	ZM_REASON_NO_MEMORY,	/* the pool could not allocate */
	ZM_REASON_LIMIT,	/* memory_limit reached */
	ZM_REASON_DAMAGED,	/* an object does not decompress */
	ZM_REASON_MISMATCH,	/* a page does not have its fingerprint */
	ZM_REASON_COUNT,
};

struct zm_stats {
	/* What is held now. */
	u64 slots;
	u64 pages_stored;	/* slots that hold something */
	u64 pages_same;		/* of them same-filled */
	u64 pages_raw;		/* of them incompressible */
	u64 pages_shared;	/* of them in a share */
	u64 objects;		/* in the pool, shares included */
	u64 shares;
	u64 bytes_compressed;	/* sum of the objects' sizes */
	u64 bytes_melded;	/* what shared slots would add to it */
	u64 memory_used;	/* pool, bytes in whole pages */
	u64 memory_used_max;	/* high-water mark */
	u64 memory_limit;
	u64 memory_metadata;	/* slots, shares, index, key */
	/* What was done since the store was made. */
	u64 reads;
	u64 writes;
	u64 discards;
	u64 raw_since;		/* pages that did not compress */
	u64 passes;
	u64 pass_melded;
	u64 inline_probes;	/* writes that asked the index */
	u64 inline_melded;	/* writes that found their twin */
	u64 inline_unchanged;	/* writes of what the slot held already */
	u64 inline_collisions;	/* same fingerprint, other bytes */
	u64 auto_switches;
	u64 failures[ZM_REASON_COUNT];
	u32 mode;		/* enum zm_meld_mode */
	u32 inline_active;	/* auto: whether it is on now */
};

void zm_store_stats(struct zm_store *store, struct zm_stats *stats);

enum zm_check_level {
	ZM_CHECK_SLOTS,		/* every slot is in a legal state */
	ZM_CHECK_COUNTS,	/* and every counter and share count is right */
	ZM_CHECK_CONTENTS,	/* and every page decompresses to its fingerprint */
};

/*
 * Walks everything. 0, or -EUCLEAN with what is wrong in text, a line each;
 * -ENOMEM; -EBUSY while a pass runs. Exclusive from ZM_CHECK_COUNTS on. May
 * sleep.
 */
int zm_store_check(struct zm_store *store, u32 level, char *text,
		   size_t text_size);

/* -- Printers: the same words in sysfs, tools and test failures ------------ */

/* Each returns the characters written, without the NUL. */
int zm_stats_to_text(const struct zm_stats *stats, char *text, size_t size);
int zm_meld_result_to_text(const struct zm_meld_result *result, char *text,
			   size_t size);
int zm_slot_to_text(struct zm_store *store, u64 index, char *text,
		    size_t size);
const char *zm_reason_name(u32 reason);
const char *zm_meld_mode_name(u32 mode);

/* -- Pieces that predictors use as well ------------------------------------ */

/* Whether the page repeats one machine word, and which. */
bool zm_page_fill(const void *page, u64 *word);

/* A fingerprint key, expanded once; see core/fingerprint.c. */
struct zm_fingerprint_key;
struct zm_fingerprint_key *zm_fingerprint_key_create(const u8 *key);
void zm_fingerprint_key_destroy(struct zm_fingerprint_key *key);
u32 zm_fingerprint(const struct zm_fingerprint_key *key, const void *page);

#endif /* ZMELD_STORE_H */

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the core's files know of each other.
 *
 * Lock order: the pass's mutex, then slots (two at once only in the pass, the
 * lower index first), then whatever the pool takes inside. A stream is borrowed
 * before a slot is locked, never after.
 */
#ifndef ZMELD_CORE_STORE_H
#define ZMELD_CORE_STORE_H

#include <zmeld/port.h>
#include <zmeld/store.h>

#include "slot.h"

/*
 * Counters that many threads add to, each a read-modify-write of one word that
 * all processors share: so what follows from others is not counted. Objects,
 * for one, are the pages stored less the same-filled and the shared ones, and
 * the shares. zm_store_check() computes the sums over the slots again.
 */
struct zm_counters {
	u64 pages_stored;
	u64 pages_same;
	u64 pages_raw;
	u64 pages_shared;
	u64 shares;
	u64 bytes_compressed;
	u64 bytes_melded;

	u64 reads;
	u64 writes;
	u64 discards;
	u64 raw_since;
	u64 passes;
	u64 pass_melded;
	u64 inline_probes;
	u64 inline_melded;
	u64 inline_unchanged;
	u64 inline_collisions;
	u64 auto_switches;
	u64 failures[ZM_REASON_COUNT];
};

struct zm_index;

struct zm_store {
	/* Constant after create. */
	struct zm_slot *slots;
	u64 slot_count;
	struct zm_pool *pool;
	struct zm_streams *streams;
	const struct zm_codec_ops *codec;
	struct zm_codec_params params;
	struct zm_fingerprint_key *key;
	struct zm_mutex *pass_mutex;
	u32 huge_size;
	bool verify;

	/* Read by all, written seldom. */
	u32 mode;
	u64 memory_limit;
	u64 memory_used_max;
	struct zm_index *index;		/* made on first use, then kept */

	/* The pass; under pass_mutex, but for stop. */
	u32 pass_stop;
	u32 pass_resume_at;

	/* Auto mode: one window of writes; see inline.c. */
	u32 inline_active;
	u64 window_probes;
	u64 window_hits;

	struct zm_counters counters;
};

/* object.c: what is stored, and letting go of it */
int zm_object_create(struct zm_store *store, struct zm_stream *stream,
		     const void *page, struct zm_object *object);
int zm_object_read(struct zm_store *store, struct zm_stream *stream,
		   struct zm_object object, void *page);
bool zm_object_equals(struct zm_store *store, struct zm_stream *stream,
		      struct zm_object object, const void *bytes, u32 size);
bool zm_content_release(struct zm_store *store, struct zm_content content);
struct zm_share *zm_share_create(void);
void zm_share_free(void *share);
bool zm_share_put(struct zm_store *store, struct zm_share *share);
void zm_slot_make_share(struct zm_store *store, struct zm_slot *slot,
			struct zm_share *share);
struct zm_content zm_share_take(struct zm_store *store, struct zm_share *share,
				u32 fingerprint);

/* page.c */
void zm_slot_replace(struct zm_store *store, u64 index,
		     struct zm_content content);
void zm_fail(struct zm_store *store, enum zm_reason reason);

/* index.c: from fingerprint to slot, for inline melding */
#define ZM_INDEX_WAYS 8
struct zm_index *zm_index_create(u64 slots);
void zm_index_destroy(struct zm_index *index);
u64 zm_index_bytes(const struct zm_index *index);
void zm_index_insert(struct zm_index *index, const struct zm_slot *slots,
		     u32 fingerprint, u64 slot);
u32 zm_index_lookup(const struct zm_index *index, u32 fingerprint,
		    u64 found[ZM_INDEX_WAYS]);

/* inline.c */
bool zm_inline_meld(struct zm_store *store, struct zm_stream *stream,
		    u64 index, const void *page, u32 fingerprint);
void zm_inline_written(struct zm_store *store, u64 index, u32 fingerprint);

/* sort.c */
void zm_sort64(u64 *words, u64 count);

/* fingerprint.c */
u64 zm_fingerprint_key_bytes(void);

static inline void zm_count(u64 *counter)
{
	zm_add64(counter, 1);
}

static inline void zm_uncount(u64 *counter)
{
	zm_add64(counter, (u64)-1);
}

#endif /* ZMELD_CORE_STORE_H */

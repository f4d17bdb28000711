/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the core's files know of each other.
 *
 * The life of a page, from its write to its end; each file's head says more of
 * its own part:
 *
 *   written    page.c. A page that repeats one word is that word, in its slot, and
 *              its life ends here. Any other is copied where it gets a
 *              fingerprint, since its owner may still change it; then copy,
 *              fingerprint and stored bytes are of the same page.
 *   melded     inline.c asks index.c for slots of that fingerprint, compares, and
 *              takes the twin's share: nothing is compressed.
 *   stored     object.c compresses it, or leaves it raw, checks that the bytes
 *              give the page where that is asked for, and puts them into the
 *              pool; page.c swaps it into the slot, under the slot's lock, for
 *              what was there, which is let go of when the lock is gone.
 *   shared     share.c. Found by a later write or by the pass (pass.c, meld.c) to
 *              be some other slot's page too, its object becomes a share with a
 *              count. From here the page never changes; where it stands may.
 *   made anew  recompress.c puts an object of a stronger codec in its place.
 *   sent away  writeback.c makes a share of it, if only of one slot, and gives it a
 *              block of blocks.c; the object goes when the block is written. It
 *              stays there, for this is the last place that a page comes to.
 *   read       page.c makes the page of its object, under the slot's lock, or of
 *              a share's with no lock, the share pinned; of a block, the caller
 *              reads it in between.
 *   let go     by a write, a discard or the store's end, one slot after the
 *              other: an object goes at once, a share with its last slot, and its
 *              block when nobody reads or writes that any more.
 *
 * Lock order: the pass's mutex or that of idle marks, then slots (two at once only
 * in the pass, the lower index first), then one share, then the blocks or whatever
 * the pool takes inside. A stream is borrowed before a slot is locked, never after.
 */
#ifndef ZMELD_CORE_STORE_H
#define ZMELD_CORE_STORE_H

#include <zmeld/port.h>
#include <zmeld/store.h>

#include "share.h"
#include "slot.h"

/*
 * Counters, each of 64 bits, in a lane for each processor (see port.h): no two
 * write the same cache line for a page. What one lane lost another may have won,
 * so only the sum over all of them says something. What follows from others is not
 * counted: objects, for one, are the pages stored less the same-filled and the
 * shared ones, and the shares. zm_store_check() computes the sums over the slots
 * again.
 */
struct zm_counters {
	u64 pages_stored;
	u64 pages_same;
	u64 pages_raw;
	u64 pages_shared;
	u64 pages_backed;
	u64 shares;
	u64 shares_backed;
	u64 bytes_compressed;
	u64 bytes_melded;
	/* Of shares that slots use: held by others. Of orphans: the same. */
	u64 held;
	u64 held_orphaned;
	/* Blocks that no share with a slot stands in: on their way, or read. */
	u64 blocks_in_flight;

	u64 raw_since;
	u64 passes;
	u64 pass_melded;
	u64 inline_probes;
	u64 inline_melded;
	u64 inline_unchanged;
	u64 inline_collisions;
	u64 auto_switches;
	u64 encode_errors;
	u64 damaged;
	u64 mismatches;
};

struct zm_index;

/* Which blocks of the backing device are taken; see blocks.c. */
struct zm_blocks {
	u64 *taken;	/* a bit each */
	zm_shared64 count;
	zm_shared64 used;
	zm_shared64 next;	/* where to look first */
	u32 lock;	/* of all but count */
};

/*
 * Where a pass was stopped: fingerprints below `from` are done; of `fingerprint`
 * the slots below slots_done, which were compared with the first of them.
 */
struct zm_resume {
	u64 from;
	u64 slots_done;
	u32 fingerprint;
};

struct zm_store {
	/* Constant after create. */
	struct zm_slot *slots;
	u64 slot_count;
	struct zm_pool *pool;
	struct zm_streams *streams;
	struct zm_codec_choice codecs[ZM_PRIORITIES];
	struct zm_fingerprint_key *key;
	struct zm_mutex *pass_mutex;
	struct zm_mutex *mode_mutex;	/* who changes the mode or makes the index */
	struct zm_mutex *idle_mutex;	/* who marks idle pages */
	u32 huge_size;
	struct zm_counters *counters;	/* lanes: see zm_counter_add() */
	u32 *accessed;			/* seconds, by slot */

	/* Read by all, written seldom. */
	u32 mode;
	u32 verify;
	u32 check_writes;
	zm_shared64 memory_limit;
	zm_shared64 memory_used_max;
	struct zm_index *index;		/* made on first use, then kept */

	zm_shared64 stops;		/* asked for, from 1 on; see stop.c */
	struct zm_resume resume;	/* under pass_mutex */

	/* Auto mode: one window of writes; see inline.c. */
	u32 inline_active;
	zm_shared64 window_probes;
	zm_shared64 window_hits;

	struct zm_blocks blocks;
};

/* stop.c: what ends long work early */
struct zm_stop {
	struct zm_store *store;
	u64 seen;
	u64 started_ns;
	u64 time_ns_max;	/* 0: no limit */
};

struct zm_stop zm_stop_watch(struct zm_store *store, u64 seen,
			     u64 time_ns_max);
bool zm_stop_wanted(const struct zm_stop *stop);
bool zm_stop_between_slots(const struct zm_stop *stop, u64 index);

/* pick.c: which slots and shares a request is about, of enum zm_pick */
bool zm_slot_is_picked(struct zm_content content, u32 which);
bool zm_share_is_picked(const struct zm_share *share, u32 which);

/* object.c: stored bytes, and what slots hold */
u32 zm_page_pack(struct zm_store *store, struct zm_stream *stream,
		 u32 priority, const void *page, const void **bytes);
int zm_object_store(struct zm_store *store, struct zm_stream *stream,
		    const void *bytes, u64 limit, struct zm_object *object);
int zm_object_create(struct zm_store *store, struct zm_stream *stream,
		     const void *page, struct zm_object *object);
void zm_object_free(struct zm_store *store, struct zm_object object);
int zm_bytes_unpack(struct zm_store *store, struct zm_stream *stream,
		    u32 priority, const void *bytes, u32 size, void *page);
void zm_slot_prefetch(struct zm_store *store, struct zm_slot *slot);
u32 zm_content_release(struct zm_store *store, struct zm_content content);

/*
 * Room in the pool for a page that is being written: what the pool has not at hand
 * is waited for when the stream has been given back, and then the write begins anew.
 */
struct zm_room {
	struct zm_handle handle;	/* 0: there is none yet */
	u32 size;			/* of it, or of what is missing */
};

/* Any page fits, as it is. */
static inline bool zm_room_is_whole(const struct zm_room *room)
{
	return room && room->handle.value && room->size == ZM_PAGE_SIZE;
}

int zm_room_wait(struct zm_store *store, const void *near,
		 struct zm_room *room);
void zm_room_release(struct zm_store *store, struct zm_room *room);

/* What became of a look at a slot's object. */
enum zm_look {
	ZM_LOOK_EQUAL,
	ZM_LOOK_DIFFERS,
	ZM_LOOK_OTHER_CODEC,		/* made by different codecs: bytes tell nothing */
	ZM_LOOK_BACKED,		/* not in the pool */
};

/* A copy of stored bytes; with priority ZM_PRIORITIES the page itself. */
struct zm_copy {
	const void *bytes;
	u32 size;
	u32 priority;
};

void zm_object_copy(struct zm_store *store, struct zm_object object, void *to,
		    struct zm_copy *copy);
bool zm_object_is_page(struct zm_store *store, struct zm_stream *stream,
		       struct zm_object object, const void *page);
int zm_object_read(struct zm_store *store, struct zm_stream *stream,
		   struct zm_object object, void *page);
int zm_content_read(struct zm_store *store, struct zm_stream *stream,
		    struct zm_content content, void *page);
bool zm_content_copy(struct zm_store *store, struct zm_content content,
		     void *to, struct zm_copy *copy);
enum zm_look zm_content_compare(struct zm_store *store,
				struct zm_stream *stream,
				struct zm_content content,
				const struct zm_copy *copy);

/* share.c */
struct zm_share *zm_share_create(bool wait);
void zm_share_free(void *share);
void zm_slot_make_share(struct zm_store *store, struct zm_slot *slot,
			struct zm_share *share);
struct zm_share *zm_slot_unmake_share(struct zm_store *store,
				      struct zm_slot *slot,
				      struct zm_share *share);
bool zm_share_take(struct zm_store *store, struct zm_share *share,
		   u32 fingerprint, u32 flags, struct zm_content *content);
bool zm_share_take_pinned(struct zm_store *store, struct zm_share *share,
			  u32 fingerprint, u32 flags,
			  struct zm_content *content);
bool zm_share_pin(struct zm_share *share, struct zm_object *object);
void zm_share_unpin(struct zm_store *store, struct zm_share *share);
u32 zm_share_release(struct zm_store *store, struct zm_share *share);
void zm_share_hold(struct zm_store *store, struct zm_share *share)
	zm_must_hold(share);
void zm_share_put(struct zm_store *store, struct zm_share *share)
	zm_releases(share);
void zm_share_replace(struct zm_store *store, struct zm_share *share,
		      struct zm_object object)
	zm_must_hold(share);
void zm_share_move(struct zm_store *store, struct zm_share *share,
		   struct zm_object block)
	zm_must_hold(share);

/* writeback.c */
void zm_backed_hold(struct zm_store *store, struct zm_content content,
		    struct zm_backed *backed);

/* blocks.c */
int zm_block_reserve(struct zm_store *store, u64 *block);
void zm_block_free(struct zm_store *store, u64 block);
bool zm_block_is_taken(const struct zm_store *store, u64 block);
u64 zm_blocks_count_taken(const struct zm_store *store);
u64 zm_blocks_bytes(const struct zm_store *store);

/* idle.c */
void zm_access_note(struct zm_store *store, u64 index);
u64 zm_access_bytes(const struct zm_store *store);

/* page.c */
void zm_slot_replace(struct zm_store *store, u64 index,
		     struct zm_content content);
int zm_page_verify(struct zm_store *store, struct zm_content content,
		   const void *page);
int zm_page_hand_out(struct zm_store *store, struct zm_content content,
		     const void *own, void *page);

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
bool zm_sort64(u64 *words, u64 count, const struct zm_stop *stop);

/* fingerprint.c */
u64 zm_fingerprint_key_bytes(void);

/* counter: of the first lane; it is this processor's that is added to. */
static inline void zm_counter_add(u64 *counter, u64 value)
{
	zm_percpu_add(counter, value);
}

static inline void zm_count(u64 *counter)
{
	zm_counter_add(counter, 1);
}

static inline void zm_uncount(u64 *counter)
{
	zm_counter_add(counter, (u64)-1);
}

/*
 * The sum over all lanes. While others count, it is of no one moment and can be
 * off by what they do, below 0 as well.
 */
static inline u64 zm_counter_read(const u64 *counter)
{
	return zm_port_percpu_sum(counter);
}

#endif /* ZMELD_CORE_STORE_H */

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Inline melding: a write looks for its twin before it compresses.
 *
 * The index names slots with the same fingerprint; each one's stored bytes are
 * compared with the page. A twin found costs a decompression and saves a
 * compression and the memory; a miss costs the index look-up.
 *
 * Auto mode pays for that only while it is worth it. While it is off, one
 * fingerprint in SAMPLE is still looked up and indexed. Which ones depends on
 * the fingerprint alone, so both twins of a pair are in the sample or neither
 * is, and the sample's hit rate is the whole's. Each window of WINDOW look-ups
 * ends with a decision: on at ON_PERMILLE hits, off below OFF_PERMILLE.
 *
 * A twin on the backing device is passed over: it would take I/O to look at.
 *
 * Locking: one slot at a time, and its share, never for a decompression: many may
 * write one page at once, and whoever frees the twin's slot may hold locks. So the
 * twin's share is pinned, and compared with the page with no lock. A twin that has
 * an object of its own becomes a share before, and is put back if the page turns
 * out to be another. A share's page never changes, so it is joined whatever the
 * twin's slot holds by then. The reference is taken first, then the written slot is
 * given it under its own lock.
 *
 * Its place in the life of a page: "melded" in store.h.
 */
#include "store.h"

#define SAMPLE		16
#define WINDOW		4096
#define WINDOW_PART	64
#define ON_PERMILLE	20
#define OFF_PERMILLE	10

_Static_assert(WINDOW % WINDOW_PART == 0, "a window ends with a part");

static bool takes_part(struct zm_store *store, u32 fingerprint)
{
	return zm_load32(&store->mode) == ZM_MELD_INLINE ||
	       zm_load32(&store->inline_active) || fingerprint % SAMPLE == 0;
}

/*
 * Each stream tells what it saw in parts of a window, so that not every look-up
 * writes what all look at. Whoever ends a window decides; a count lost to a race
 * does not matter.
 */
static void window_count(struct zm_store *store, struct zm_stream *stream,
			 bool hit)
{
	u32 active = zm_load32(&store->inline_active), part_hits;
	u64 hits, permille;

	stream->hits += hit;
	if (++stream->probes < WINDOW_PART)
		return;
	part_hits = stream->hits;
	stream->probes = 0;
	stream->hits = 0;
	zm_add64(&store->window_hits, part_hits);
	if (zm_add64(&store->window_probes, WINDOW_PART) != WINDOW)
		return;
	hits = zm_load64(&store->window_hits);
	zm_set64(&store->window_hits, 0);
	zm_set64(&store->window_probes, 0);
	permille = hits * 1000 / WINDOW;
	if (permille >= ON_PERMILLE && !active) {
		zm_set32(&store->inline_active, 1);
		zm_count(&store->counters->auto_switches);
	} else if (permille < OFF_PERMILLE && active) {
		zm_set32(&store->inline_active, 0);
		zm_count(&store->counters->auto_switches);
	}
}

enum twin {
	TWIN_NO,	/* the index was out of date, or it is not in the pool */
	TWIN_COLLISION,	/* same fingerprint, other bytes */
	TWIN_SELF,	/* the written slot holds this page already */
	TWIN_TAKEN,	/* a reference was taken: content is for the slot */
};

/* A page that is written, and what to look for. */
struct search {
	struct zm_store *store;
	struct zm_stream *stream;
	const void *page;
	u64 index;		/* of the slot that it is written to */
	u32 fingerprint;
};

static bool may_hold(const struct search *search, struct zm_content content)
{
	return zm_state_has_object(content.state) &&
	       content.state & ZM_STATE_FINGERPRINTED &&
	       content.fingerprint == search->fingerprint;
}

/*
 * Pins what the slot may hold the page in; an object of its own becomes a share.
 * NULL: the slot holds something else, or a page that is not in the pool.
 */
static struct zm_share *twin_pin(const struct search *search,
				 struct zm_slot *slot,
				 struct zm_object *object)
{
	struct zm_stream *stream = search->stream;
	struct zm_share *share = NULL;
	struct zm_content held;

	zm_slot_lock(slot);
	held = zm_slot_content(slot);
	if (!may_hold(search, held))
		goto unlock;
	if (zm_state_kind(held.state) == ZM_KIND_OBJECT) {
		zm_slot_make_share(search->store, slot, stream->spare);
		stream->spare = NULL;
		held = zm_slot_content(slot);
	}
	share = zm_content_share(held);
	if (!zm_share_pin(share, object))
		share = NULL;
unlock:
	zm_slot_unlock(slot);
	return share;
}

/*
 * Nothing is melded: leaves the slot as it was, but for what happened to it
 * meanwhile. unchanged: it was written with what it holds, so it was accessed.
 */
static void twin_unpin(const struct search *search, struct zm_slot *slot,
		       struct zm_share *share, bool unchanged)
{
	struct zm_stream *stream = search->stream;
	struct zm_share *spare;

	zm_slot_lock(slot);
	if (unchanged) {
		zm_slot_accessed(slot);
		zm_share_accessed(share);
	}
	spare = zm_slot_unmake_share(search->store, slot, share);
	zm_slot_unlock(slot);
	if (!spare)
		return;
	if (stream->spare)
		zm_share_free(spare);
	else
		stream->spare = spare;
}

/*
 * The slot may hold other content by the time of the comparison. For a twin that
 * does not matter: its share still is the page. The written slot had the page
 * while it was being written, and what came then came after.
 */
static enum twin twin_try(const struct search *search, u64 twin,
			  struct zm_content *content)
{
	struct zm_store *store = search->store;
	struct zm_slot *slot = &store->slots[twin];
	bool is_self = twin == search->index;
	struct zm_object object;
	struct zm_share *share;
	enum twin result = TWIN_NO;

	/*
	 * Before any lock: a share may be needed under it. Not waited for, since
	 * readers want the stream; without one the page is stored as any other.
	 */
	if (!search->stream->spare)
		search->stream->spare = zm_share_create(false);
	if (!search->stream->spare)
		return TWIN_NO;
	share = twin_pin(search, slot, &object);
	if (!share)
		return TWIN_NO;
	/* Or damaged: the one who reads it is told. */
	if (!zm_object_is_page(store, search->stream, object, search->page)) {
		twin_unpin(search, slot, share, false);
		return TWIN_COLLISION;
	}
	if (is_self) {
		twin_unpin(search, slot, share, true);
		result = TWIN_SELF;
	} else if (zm_share_take_pinned(store, share, search->fingerprint,
					ZM_STATE_FINGERPRINTED, content)) {
		result = TWIN_TAKEN;
	}
	/* As if it had no twin: who may read this number is not told. */
	if (result != TWIN_NO && zm_object_is_raw(object))
		zm_count(&store->counters->raw_since);
	return result;
}

/*
 * True where the slot now holds the page by melding; otherwise nothing was
 * changed and the page is to be stored as any other.
 */
bool zm_inline_meld(struct zm_store *store, struct zm_stream *stream,
		    u64 index, const void *page, u32 fingerprint)
{
	struct zm_index *table = zm_consume(&store->index);
	const struct search search = {
		.store = store,
		.stream = stream,
		.page = page,
		.index = index,
		.fingerprint = fingerprint,
	};
	u64 found[ZM_INDEX_WAYS];
	struct zm_content content;
	u32 count, i;

	if (!table || !takes_part(store, fingerprint))
		return false;
	zm_count(&store->counters->inline_probes);
	count = zm_index_lookup(table, fingerprint, found);
	for (i = 0; i < count; i++) {
		switch (twin_try(&search, found[i], &content)) {
		case TWIN_NO:
			continue;
		case TWIN_COLLISION:
			zm_count(&store->counters->inline_collisions);
			continue;
		case TWIN_SELF:
			zm_count(&store->counters->inline_unchanged);
			window_count(store, stream, true);
			return true;
		case TWIN_TAKEN:
			zm_count(&store->counters->inline_melded);
			zm_slot_replace(store, index, content);
			window_count(store, stream, true);
			return true;
		}
	}
	window_count(store, stream, false);
	return false;
}

/* A page was stored as an object of its own: others may be its twin. */
void zm_inline_written(struct zm_store *store, u64 index, u32 fingerprint)
{
	struct zm_index *table = zm_consume(&store->index);

	if (table && takes_part(store, fingerprint))
		zm_index_insert(table, store->slots, fingerprint, index);
}

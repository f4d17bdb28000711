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
 * Locking: one slot at a time, and its share, for a copy or a comparison of
 * stored bytes, never for a decompression: many may write one page at once.
 *   - A share is held while the copy of its bytes is compared. Its page never
 *     changes, so it is joined whatever its slots hold by then.
 *   - A slot's own object is copied, and after the comparison the slot is locked
 *     again: stored bytes equal to the copy are the same page, whoever wrote
 *     them. So nothing is made of a slot that turns out to hold another page.
 * The reference is taken first, then the written slot is given it under its own
 * lock.
 */
#include "store.h"

#define SAMPLE		16
#define WINDOW		4096
#define ON_PERMILLE	20
#define OFF_PERMILLE	10

static bool takes_part(struct zm_store *store, u32 fingerprint)
{
	return zm_load32(&store->mode) == ZM_MELD_INLINE ||
	       zm_load32(&store->inline_active) || fingerprint % SAMPLE == 0;
}

/* Whoever ends a window decides; a count lost to a race does not matter. */
static void window_count(struct zm_store *store, bool hit)
{
	u32 active = zm_load32(&store->inline_active);
	u64 hits, permille;

	if (hit)
		zm_count(&store->window_hits);
	if (zm_add64(&store->window_probes, 1) != WINDOW)
		return;
	hits = zm_load64(&store->window_hits);
	zm_set64(&store->window_hits, 0);
	zm_set64(&store->window_probes, 0);
	permille = hits * 1000 / WINDOW;
	if (permille >= ON_PERMILLE && !active) {
		zm_set32(&store->inline_active, 1);
		zm_count(&store->counters.auto_switches);
	} else if (permille < OFF_PERMILLE && active) {
		zm_set32(&store->inline_active, 0);
		zm_count(&store->counters.auto_switches);
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

/* What was seen of a slot that may hold the page. */
struct sighting {
	struct zm_slot *slot;
	bool is_self;		/* it is the written slot */
	struct zm_share *share;	/* held; or NULL: look at the slot again */
	struct zm_copy copy;	/* stored bytes; of a raw twin the page itself */
};

static bool may_hold(const struct search *search, struct zm_content content)
{
	return zm_state_has_object(content.state) &&
	       content.state & ZM_STATE_FINGERPRINTED &&
	       content.fingerprint == search->fingerprint;
}

/*
 * Copies stored bytes for a comparison without a lock. Raw ones are not copied:
 * they can be compared with the page where they are, by settle().
 */
static void see_object(const struct search *search, struct zm_object object,
		       struct sighting *seen)
{
	if (zm_object_is_raw(object))
		seen->copy = (struct zm_copy){ search->page, ZM_PAGE_SIZE,
					       ZM_PRIORITIES };
	else
		zm_object_copy(search->store, object,
			       search->stream->packed + ZM_PAGE_SIZE,
			       &seen->copy);
}

/* False: it is not in the pool. pre: its slot is locked. */
static bool see_share(const struct search *search, struct zm_share *share,
		      struct sighting *seen)
{
	bool here;

	zm_share_lock(share);
	here = zm_share_is_here(share);
	if (here) {
		see_object(search, zm_share_object(share), seen);
		if (!seen->is_self && seen->copy.bytes != search->page) {
			zm_share_hold(search->store, share);
			seen->share = share;
		}
	}
	zm_share_unlock(share);
	return here;
}

static bool see_slot(const struct search *search, struct sighting *seen)
{
	struct zm_content held;
	bool saw;

	zm_slot_lock(seen->slot);
	held = zm_slot_content(seen->slot);
	saw = may_hold(search, held);
	if (saw && zm_state_kind(held.state) == ZM_KIND_SHARE)
		saw = see_share(search, zm_content_share(held), seen);
	else if (saw)
		see_object(search, zm_content_object(held), seen);
	zm_slot_unlock(seen->slot);
	return saw;
}

/* Written with what it held: accessed, no more. pre: locked. */
static void slot_unchanged(struct zm_slot *slot, struct zm_content held)
{
	zm_slot_accessed(slot);
	if (zm_state_kind(held.state) == ZM_KIND_SHARE)
		zm_share_accessed(zm_content_share(held));
}

/* A reference to what the slot holds. pre: locked; it holds the page. */
static enum twin slot_take(const struct search *search, struct zm_slot *slot,
			   struct zm_content *content)
{
	struct zm_content held = zm_slot_content(slot);

	if (zm_state_kind(held.state) == ZM_KIND_OBJECT) {
		zm_slot_make_share(search->store, slot, search->stream->spare);
		search->stream->spare = NULL;
		held = zm_slot_content(slot);
	}
	return zm_share_take(search->store, zm_content_share(held),
			     search->fingerprint, ZM_STATE_FINGERPRINTED,
			     content) ? TWIN_TAKEN : TWIN_NO;
}

/*
 * The copy is the page: takes what the slot holds if that still has the same
 * stored bytes. It may have become a share meanwhile, or something else.
 */
static enum twin settle(const struct search *search,
			const struct sighting *seen,
			struct zm_content *content)
{
	enum twin result = TWIN_NO;
	struct zm_content held;
	enum zm_look look;

	zm_slot_lock(seen->slot);
	held = zm_slot_content(seen->slot);
	if (!may_hold(search, held))
		goto unlock;
	look = zm_content_compare(search->store, search->stream, held,
				  &seen->copy);
	if (look == ZM_LOOK_DIFFERS) {
		result = TWIN_COLLISION;
	} else if (look == ZM_LOOK_EQUAL && seen->is_self) {
		slot_unchanged(seen->slot, held);
		result = TWIN_SELF;
	} else if (look == ZM_LOOK_EQUAL) {
		result = slot_take(search, seen->slot, content);
	}
unlock:
	zm_slot_unlock(seen->slot);
	return result;
}

static enum twin twin_try(const struct search *search, u64 twin,
			  struct zm_content *content)
{
	struct zm_store *store = search->store;
	struct sighting seen = {
		.slot = &store->slots[twin],
		.is_self = twin == search->index,
	};
	enum twin result = TWIN_NO;

	if (!see_slot(search, &seen))
		return TWIN_NO;
	if (!zm_copy_is_page(store, search->stream, &seen.copy,
			     search->page)) {
		/* Or damaged: the one who reads it is told. */
		if (seen.share)
			zm_share_let_go(store, seen.share);
		return TWIN_COLLISION;
	}
	if (!seen.share)
		result = settle(search, &seen, content);
	else if (zm_share_take_held(store, seen.share, search->fingerprint,
				    ZM_STATE_FINGERPRINTED, content))
		result = TWIN_TAKEN;
	/* As if it had no twin: who may read this number is not told. */
	if (result >= TWIN_SELF && seen.copy.size == ZM_PAGE_SIZE)
		zm_count(&store->counters.raw_since);
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
	zm_count(&store->counters.inline_probes);
	/* Before any lock: a share may be needed under it. */
	if (!stream->spare)
		stream->spare = zm_share_create();
	count = stream->spare ? zm_index_lookup(table, fingerprint, found) : 0;
	for (i = 0; i < count; i++) {
		switch (twin_try(&search, found[i], &content)) {
		case TWIN_NO:
			continue;
		case TWIN_COLLISION:
			zm_count(&store->counters.inline_collisions);
			continue;
		case TWIN_SELF:
			zm_count(&store->counters.inline_unchanged);
			window_count(store, true);
			return true;
		case TWIN_TAKEN:
			zm_count(&store->counters.inline_melded);
			zm_slot_replace(store, index, content);
			window_count(store, true);
			return true;
		}
	}
	window_count(store, false);
	return false;
}

/* A page was stored as an object of its own: others may be its twin. */
void zm_inline_written(struct zm_store *store, u64 index, u32 fingerprint)
{
	struct zm_index *table = zm_consume(&store->index);

	if (table && takes_part(store, fingerprint))
		zm_index_insert(table, store->slots, fingerprint, index);
}

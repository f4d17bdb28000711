// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Inline melding: a write looks for its twin before it compresses.
 *
 * The index names slots with the same fingerprint; each is locked, its object
 * decompressed and compared with the page. A twin found costs a decompression
 * and saves a compression and the memory; a miss costs the index look-up.
 *
 * Auto mode pays for that only while it is worth it. While it is off, one
 * fingerprint in SAMPLE is still looked up and indexed. Which ones depends on
 * the fingerprint alone, so both twins of a pair are in the sample or neither
 * is, and the sample's hit rate is the whole's. Each window of WINDOW look-ups
 * ends with a decision: on at ON_PERMILLE hits, off below OFF_PERMILLE.
 *
 * A twin on the backing device is passed over: it would take I/O to look at.
 *
 * Locking: one slot at a time, and its share. The twin's reference is taken under the twin's
 * lock, then the written slot is given it under its own.
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

/*
 * A raw twin is compared in place; any other decompressed. pre: the slot is
 * locked and has an object.
 */
static enum zm_look page_look(struct zm_store *store, struct zm_stream *stream,
			      struct zm_content content, const void *page)
{
	struct zm_copy copy = { page, ZM_PAGE_SIZE, ZM_PRIORITIES };
	enum zm_look look;

	look = zm_content_compare(store, stream, content, &copy);
	if (look != ZM_LOOK_UNLIKE)
		return look;
	return zm_content_compare_page(store, stream, content, page);
}

enum twin {
	TWIN_NO,	/* the index was out of date, or it is not in the pool */
	TWIN_COLLISION,	/* same fingerprint, other bytes */
	TWIN_SELF,	/* the written slot holds this page already */
	TWIN_TAKEN,	/* a reference was taken: content is for the slot */
};

/* Written with what it held: accessed, no more. pre: locked. */
static void slot_unchanged(struct zm_slot *slot, struct zm_content held)
{
	zm_slot_accessed(slot);
	if (zm_state_kind(held.state) == ZM_KIND_SHARE)
		zm_share_accessed(zm_content_share(held));
}

static enum twin twin_try(struct zm_store *store, struct zm_stream *stream,
			  u64 twin, u64 index, const void *page,
			  u32 fingerprint, struct zm_content *content)
{
	struct zm_slot *slot = &store->slots[twin];
	enum twin result = TWIN_NO;
	struct zm_content held;

	zm_slot_lock(slot);
	held = zm_slot_content(slot);
	if (!zm_state_has_object(held.state) ||
	    !(held.state & ZM_STATE_FINGERPRINTED) ||
	    held.fingerprint != fingerprint)
		goto unlock;
	switch (page_look(store, stream, held, page)) {
	case ZM_LOOK_EQUAL:
		break;
	case ZM_LOOK_BACKED:
		goto unlock;
	default:
		/* Damaged: the one who reads it is told. */
		result = TWIN_COLLISION;
		goto unlock;
	}
	if (twin == index) {
		slot_unchanged(slot, held);
		result = TWIN_SELF;
		goto unlock;
	}
	if (zm_state_kind(held.state) == ZM_KIND_OBJECT) {
		zm_slot_make_share(store, slot, stream->spare);
		stream->spare = NULL;
		held = zm_slot_content(slot);
	}
	if (zm_share_take(store, zm_content_share(held), fingerprint,
			  ZM_STATE_FINGERPRINTED, content))
		result = TWIN_TAKEN;
unlock:
	zm_slot_unlock(slot);
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
		switch (twin_try(store, stream, found[i], index, page,
				 fingerprint, &content)) {
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

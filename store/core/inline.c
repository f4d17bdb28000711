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
 * Locking: one slot at a time. The twin's reference is taken under the twin's
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

/* pre: the slot is locked and has an object. */
static bool page_equals(struct zm_store *store, struct zm_stream *stream,
			struct zm_object object, const void *page)
{
	if (zm_object_is_raw(object))
		return zm_object_equals(store, stream, object, page,
					ZM_PAGE_SIZE);
	if (zm_object_read(store, stream, object, stream->page))
		return false;	/* damaged: the one who reads it is told */
	return memcmp(stream->page, page, ZM_PAGE_SIZE) == 0;
}

enum twin {
	TWIN_NO,	/* the index was out of date */
	TWIN_COLLISION,	/* same fingerprint, other bytes */
	TWIN_SELF,	/* the written slot holds this page already */
	TWIN_TAKEN,	/* a reference was taken: content is for the slot */
};

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
	if (!page_equals(store, stream, zm_content_object(held), page)) {
		result = TWIN_COLLISION;
		goto unlock;
	}
	if (twin == index) {
		result = TWIN_SELF;
		goto unlock;
	}
	if (zm_state_kind(held.state) == ZM_KIND_OBJECT) {
		zm_slot_make_share(store, slot, stream->spare);
		stream->spare = NULL;
		held = zm_slot_content(slot);
	}
	*content = zm_share_take(store, zm_content_share(held), fingerprint);
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

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Shares: making them, joining and leaving them, holding them, and putting
 * another object or a block in the place of what they had. See share.h for what
 * stands in a share and under which lock.
 *
 * Invariant: the counters of what shares hold move here and nowhere else, under
 * the share's lock, so that size and count of a share do not move between two
 * additions that belong together.
 *
 * Its place in the life of a page: "shared" in store.h.
 */
#include "store.h"

struct zm_share *zm_share_create(bool wait)
{
	return zm_port_small_alloc(sizeof(struct zm_share), wait);
}

void zm_share_free(void *share)
{
	zm_port_small_free(share, sizeof(struct zm_share));
}

/* What was said of a slot's object is said of the share's. */
static u32 share_state(u32 slot_state)
{
	u32 state = slot_state & ZM_STATE_PRIORITY_MASK;

	if (slot_state & ZM_STATE_INCOMPRESSIBLE)
		state |= ZM_SHARE_INCOMPRESSIBLE;
	if (slot_state & ZM_STATE_IDLE)
		state |= ZM_SHARE_IDLE;
	return state;
}

/*
 * Turns a slot's own object into a share of one, the slot's.
 * pre: slot locked, holds an object of its own; share is fresh.
 */
void zm_slot_make_share(struct zm_store *store, struct zm_slot *slot,
			struct zm_share *share)
{
	struct zm_content content = zm_slot_content(slot);
	u32 kept = content.state & (ZM_STATE_FINGERPRINTED | ZM_STATE_IDLE);
	struct zm_object object = zm_content_object(content);

	*share = (struct zm_share){
		.place = object.handle.value,
		.size = object.size,
		.state = share_state(content.state),
		.count = 1,
	};
	content.value = (u64)(uintptr_t)share;
	content.state = zm_state_make(ZM_KIND_SHARE) | kept;
	zm_slot_set(slot, content);
	zm_count(&store->counters->shares);
	zm_count(&store->counters->pages_shared);
}

/* pre: locked. */
static bool share_join(struct zm_store *store, struct zm_share *share,
		       u32 fingerprint, u32 flags, struct zm_content *content)
{
	struct zm_counters *counters = store->counters;

	zm_share_assert_locked(share);
	if (!zm_share_is_here(share) || share->count >= ZM_SHARE_SLOTS_MAX)
		return false;
	share->count++;
	if (!(flags & ZM_STATE_IDLE))
		zm_share_mark(share, ZM_SHARE_IDLE_MASK, 0);
	zm_count(&counters->pages_shared);
	zm_counter_add(&counters->bytes_melded, share->size);
	if (share->size == ZM_PAGE_SIZE)
		zm_count(&counters->pages_raw);
	*content = (struct zm_content){
		.value = (u64)(uintptr_t)share,
		.state = zm_state_make(ZM_KIND_SHARE) | flags,
		.fingerprint = fingerprint,
	};
	return true;
}

/*
 * One more slot's worth of the share, for content, whose fingerprint and flags
 * are given. False where it is full, or has left the pool: a page just written is
 * not to be read from a disk.
 * pre: the caller holds the share, or the lock of a slot that has it.
 */
bool zm_share_take(struct zm_store *store, struct zm_share *share,
		   u32 fingerprint, u32 flags, struct zm_content *content)
{
	bool joined;

	zm_share_lock(share);
	joined = share_join(store, share, fingerprint, flags, content);
	zm_share_unlock(share);
	return joined;
}

/*
 * Pins the share's object, to be read with no lock. False: it is not in the pool.
 * pre: a slot of it is locked.
 */
bool zm_share_pin(struct zm_share *share, struct zm_object *object)
{
	bool here;

	zm_share_lock(share);
	here = zm_share_is_here(share);
	if (here) {
		*object = zm_share_object(share);
		zm_set32(&share->state,
			 zm_load32(&share->state) + ZM_SHARE_PIN);
	}
	zm_share_unlock(share);
	return here;
}

/* pre: locked, and pinned by the caller; unlocks. */
static void pin_drop(struct zm_store *store, struct zm_share *share)
	zm_releases(share)
{
	bool orphan = !share->count, gone;

	zm_share_assert_locked(share);
	zm_set32(&share->state, zm_load32(&share->state) - ZM_SHARE_PIN);
	gone = orphan && !zm_share_is_pinned(share);
	/* Its last slot left it to us; the counters know already. */
	if (gone)
		zm_port_pool_free(store->pool, zm_share_object(share).handle);
	gone = gone && !share->held;
	zm_share_unlock(share);
	if (gone)
		zm_share_free(share);
}

/* pre: pinned by the caller. Atomic. */
void zm_share_unpin(struct zm_store *store, struct zm_share *share)
{
	zm_share_lock(share);
	pin_drop(store, share);
}

/*
 * Reverses zm_slot_make_share() where the slot and the caller's pin are all there
 * is of the share; otherwise only the pin is dropped. Returns the share if it is
 * unused again.
 * pre: slot locked; share pinned by the caller.
 */
struct zm_share *zm_slot_unmake_share(struct zm_store *store,
				      struct zm_slot *slot,
				      struct zm_share *share)
{
	struct zm_content content = zm_slot_content(slot);
	u32 kept = content.state & (ZM_STATE_FINGERPRINTED | ZM_STATE_IDLE);
	u32 state;

	zm_share_lock(share);
	state = zm_load32(&share->state);
	if (zm_state_kind(content.state) != ZM_KIND_SHARE ||
	    zm_content_share(content) != share || share->count != 1 ||
	    share->held || state >= 2 * ZM_SHARE_PIN) {
		pin_drop(store, share);
		return NULL;
	}
	if (state & ZM_SHARE_INCOMPRESSIBLE)
		kept |= ZM_STATE_INCOMPRESSIBLE;
	content.value = share->place;
	content.state = zm_state_of_object(zm_share_object(share)) | kept;
	zm_slot_set(slot, content);
	zm_uncount(&store->counters->shares);
	zm_uncount(&store->counters->pages_shared);
	zm_share_unlock(share);
	return share;
}

/* As zm_share_take(), and the caller's pin is gone. pre: pinned by the caller. */
bool zm_share_take_pinned(struct zm_store *store, struct zm_share *share,
			  u32 fingerprint, u32 flags,
			  struct zm_content *content)
{
	bool joined;

	zm_share_lock(share);
	joined = share_join(store, share, fingerprint, flags, content);
	pin_drop(store, share);
	return joined;
}

/* The last slot let go. pre: locked; unlocks. Returns the bytes of the pool. */
static u32 share_abandon(struct zm_store *store, struct zm_share *share)
	zm_releases(share)
{
	struct zm_counters *counters = store->counters;
	bool backed = zm_share_is(share, ZM_SHARE_BACKED);
	bool pinned = zm_share_is_pinned(share);
	u32 held = share->held, freed = 0;

	zm_uncount(&counters->shares);
	if (backed) {
		zm_uncount(&counters->shares_backed);
	} else {
		freed = share->size;
		zm_counter_add(&counters->bytes_compressed, -(u64)freed);
		/* Otherwise whoever reads it frees it. */
		if (!pinned)
			zm_port_pool_free(store->pool,
					  zm_share_object(share).handle);
	}
	if (held) {
		zm_counter_add(&counters->held, -(u64)held);
		zm_counter_add(&counters->held_orphaned, held);
		if (backed)
			zm_count(&counters->blocks_in_flight);
	} else if (backed) {
		zm_block_free(store, share->place);
	}
	zm_share_unlock(share);
	if (!held && !pinned)
		zm_share_free(share);
	return freed;
}

/*
 * One slot less; it has been given something else. Returns the bytes that went
 * from the pool with it. Atomic.
 */
u32 zm_share_release(struct zm_store *store, struct zm_share *share)
{
	struct zm_counters *counters = store->counters;

	zm_share_lock(share);
	if (!share->count) {
		zm_port_warn("a slot lets go of a share without slots");
		zm_share_unlock(share);
		return 0;
	}
	zm_uncount(&counters->pages_shared);
	if (zm_share_is(share, ZM_SHARE_BACKED))
		zm_uncount(&counters->pages_backed);
	else if (share->size == ZM_PAGE_SIZE)
		zm_uncount(&counters->pages_raw);
	if (!--share->count)
		return share_abandon(store, share);
	if (!zm_share_is(share, ZM_SHARE_BACKED))
		zm_counter_add(&counters->bytes_melded, -(u64)share->size);
	zm_share_unlock(share);
	return 0;
}

/* Keeps the share, and its block, though slots may let go. pre: locked. */
void zm_share_hold(struct zm_store *store, struct zm_share *share)
	zm_must_hold(share)
{
	zm_share_assert_locked(share);
	share->held++;
	zm_count(&store->counters->held);
}

/* pre: locked, and held by the caller; unlocks. Atomic. */
void zm_share_put(struct zm_store *store, struct zm_share *share)
	zm_releases(share)
{
	struct zm_counters *counters = store->counters;
	bool orphan = !share->count;
	bool gone;

	zm_share_assert_locked(share);
	share->held--;
	gone = orphan && !share->held && !zm_share_is_pinned(share);
	zm_uncount(orphan ? &counters->held_orphaned : &counters->held);
	if (gone && zm_share_is(share, ZM_SHARE_BACKED)) {
		zm_block_free(store, share->place);
		zm_uncount(&counters->blocks_in_flight);
	}
	zm_share_unlock(share);
	if (gone)
		zm_share_free(share);
}

/* Takes what the share's object adds to the counters off, and frees it. */
static void object_leave(struct zm_store *store, struct zm_share *share)
	zm_must_hold(share)
{
	struct zm_counters *counters = store->counters;
	struct zm_object object = zm_share_object(share);

	zm_share_assert_locked(share);
	zm_counter_add(&counters->bytes_melded,
		       -((u64)(share->count - 1) * object.size));
	if (zm_object_is_raw(object))
		zm_counter_add(&counters->pages_raw, -(u64)share->count);
	zm_object_free(store, object);
}

static void share_set(struct zm_share *share, struct zm_object object, u32 set)
{
	share->place = object.handle.value;
	share->size = object.size;
	zm_share_mark(share, ZM_STATE_PRIORITY_MASK | ZM_SHARE_TRIED_MASK |
			     ZM_SHARE_IDLE_MASK,
		      set | object.priority << ZM_STATE_PRIORITY_SHIFT);
}

/*
 * The same page in another, compressed object.
 * pre: locked, in the pool, not pinned.
 */
void zm_share_replace(struct zm_store *store, struct zm_share *share,
		      struct zm_object object)
	zm_must_hold(share)
{
	object_leave(store, share);
	share_set(share, object, 0);
	zm_counter_add(&store->counters->bytes_melded,
		       (u64)(share->count - 1) * object.size);
}

/* The same page in a block, its handle. pre: locked, in the pool, not pinned. */
void zm_share_move(struct zm_store *store, struct zm_share *share,
		   struct zm_object block)
	zm_must_hold(share)
{
	object_leave(store, share);
	share_set(share, block, ZM_SHARE_BACKED);
	zm_count(&store->counters->shares_backed);
	zm_counter_add(&store->counters->pages_backed, share->count);
}

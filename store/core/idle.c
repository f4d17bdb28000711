// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Idle pages: marked, and not accessed since.
 *
 * A slot's mark goes with its next read or write. A share has a mark of its
 * own, which says that all its slots are idle: it goes with the first access
 * through any of them. What is picked for being idle is idle in both senses,
 * or one sharer's rest would send away what another works with. So nothing may pick
 * a share before all its slots were looked at, and the marking walks three times:
 * it marks slots, and their shares as those that may be idle; then takes that back
 * where a slot is not; then marks the shares that are left.
 *
 * Locking: one marking at a time (idle_mutex); slot, share, as everywhere.
 *
 * Access times are seconds in a table beside the slots, written without a lock:
 * who marks by age takes them as they are.
 */
#include "store.h"

u64 zm_access_bytes(const struct zm_store *store)
{
	return store->slot_count * sizeof(u32);
}

/* The page is read or written. */
void zm_access_note(struct zm_store *store, u64 index)
{
	zm_set32(&store->accessed[index], zm_port_time_s());
}

/*
 * Whether the slot was left alone for so long; with 0 any was. Used since `now`, it
 * has no age.
 */
static bool is_old(const struct zm_store *store, u64 index, u32 now, u32 age_s)
{
	u32 accessed;

	if (!age_s)
		return true;
	accessed = zm_load32(&store->accessed[index]);
	return accessed <= now && now - accessed >= age_s;
}

static void slot_mark(struct zm_store *store, u64 index, u32 now, u32 age_s)
{
	struct zm_slot *slot = &store->slots[index];
	struct zm_content content;
	struct zm_share *share;
	bool idle;

	zm_slot_lock(slot);
	/* Here, so that who reads it notes the time before, or unmarks it after. */
	idle = is_old(store, index, now, age_s);
	content = zm_slot_content(slot);
	content.state &= ~ZM_STATE_IDLE;
	if (idle)
		content.state |= ZM_STATE_IDLE;
	switch (zm_state_kind(content.state)) {
	case ZM_KIND_EMPTY:
	case ZM_KIND_SAME:
		break;
	case ZM_KIND_OBJECT:
		zm_slot_set(slot, content);
		break;
	case ZM_KIND_SHARE:
		share = zm_content_share(content);
		zm_share_lock(share);
		if (zm_share_is_here(share)) {
			zm_slot_set(slot, content);
			if (idle)
				zm_share_mark(share, 0, ZM_SHARE_MAY_BE_IDLE);
		}
		zm_share_unlock(share);
		break;
	}
	zm_slot_unlock(slot);
}

/* A share that has a slot which is not idle is not idle either. */
static void share_unmark(struct zm_share *share, struct zm_content content)
{
	if (!(content.state & ZM_STATE_IDLE))
		zm_share_accessed(share);
}

static void share_mark(struct zm_share *share)
{
	zm_share_lock(share);
	if (zm_share_is(share, ZM_SHARE_MAY_BE_IDLE))
		zm_share_mark(share, ZM_SHARE_MAY_BE_IDLE, ZM_SHARE_IDLE);
	zm_share_unlock(share);
}

/* Unmarks the shares of slots that are not idle, or marks those left. */
static bool shares_walk(struct zm_store *store, const struct zm_stop *stop,
			bool mark)
{
	struct zm_content content;
	struct zm_slot *slot;
	u64 index;

	for (index = 0; index < store->slot_count; index++) {
		if (zm_stop_between_slots(stop, index))
			return false;
		slot = &store->slots[index];
		if (zm_state_kind(zm_load32(&slot->state)) != ZM_KIND_SHARE)
			continue;
		zm_slot_lock(slot);
		content = zm_slot_content(slot);
		if (zm_state_kind(content.state) == ZM_KIND_SHARE && mark)
			share_mark(zm_content_share(content));
		else if (zm_state_kind(content.state) == ZM_KIND_SHARE)
			share_unmark(zm_content_share(content), content);
		zm_slot_unlock(slot);
	}
	return true;
}

/* False: asked to stop; as below. */
static bool slots_walk(struct zm_store *store, const struct zm_stop *stop,
		       u32 age_s)
{
	u32 now = zm_port_time_s();
	u64 index;

	for (index = 0; index < store->slot_count; index++) {
		if (zm_stop_between_slots(stop, index))
			return false;
		if (zm_state_has_object(zm_load32(&store->slots[index].state)))
			slot_mark(store, index, now, age_s);
	}
	return true;
}

int zm_idle_mark(struct zm_store *store, u32 age_s, u64 stops_seen)
{
	struct zm_stop stop = zm_stop_watch(store, stops_seen, 0);
	bool ended;

	zm_port_mutex_lock(store->idle_mutex);
	ended = slots_walk(store, &stop, age_s) &&
		shares_walk(store, &stop, false) &&
		shares_walk(store, &stop, true);
	zm_port_mutex_unlock(store->idle_mutex);
	return ended ? 0 : -EINTR;
}

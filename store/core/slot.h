/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A slot: 16 bytes that stand for one page.
 *
 * `state` packs, under the lock in its bit 0:
 *
 *   31         14 13..10    9       8         7..6      5     4        3..1  0
 *   object size   (free)    marked  incom-    priority  idle  finger-  kind  lock
 *                                   pressible                 printed
 *
 * `value` is, by kind: nothing (empty), the repeated word (same-filled), the
 * handle (object), the share (share). What is said of an object (its size, its
 * priority, that it is incompressible) stands in the share where there is one.
 * `marked` is recompression's: it is gone once the slot was given anything else.
 * `fingerprint` is of the raw page.
 *
 * Locking: every field is written with the slot locked. All may be read without
 * as hints: the pass and the index do, and look again under the lock before
 * they believe them. A value read so is never followed.
 */
#ifndef ZMELD_CORE_SLOT_H
#define ZMELD_CORE_SLOT_H

#include <zmeld/port.h>
#include <zmeld/store.h>

struct zm_slot {
	u64 value;
	u32 state;
	u32 fingerprint;
};

_Static_assert(sizeof(struct zm_slot) == 16, "the metadata budget of a slot");

#define ZM_STATE_KIND_SHIFT	1
#define ZM_STATE_KIND_MASK	7u
#define ZM_STATE_FINGERPRINTED	(1u << 4)
#define ZM_STATE_IDLE		(1u << 5)
#define ZM_STATE_PRIORITY_SHIFT	6
#define ZM_STATE_PRIORITY_MASK	(3u << ZM_STATE_PRIORITY_SHIFT)
#define ZM_STATE_INCOMPRESSIBLE	(1u << 8)
#define ZM_STATE_MARKED		(1u << 9)
#define ZM_STATE_SIZE_SHIFT	14

_Static_assert(ZM_PAGE_SIZE < (1u << (32 - ZM_STATE_SIZE_SHIFT)),
	       "an object's size fits into a slot's state");
_Static_assert(ZM_PRIORITIES == 4, "a priority fits into a slot's state");

/* Stored bytes in the pool. Raw when size is a page. */
struct zm_object {
	struct zm_handle handle;
	u32 size;
	u32 priority;
};

/* What a slot holds, taken out of it or about to be put in. */
struct zm_content {
	u64 value;
	u32 state;		/* without the lock bit */
	u32 fingerprint;
};

static inline u32 zm_state_make(enum zm_kind kind)
{
	return (u32)kind << ZM_STATE_KIND_SHIFT;
}

static inline u32 zm_state_of_object(struct zm_object object)
{
	return zm_state_make(ZM_KIND_OBJECT) |
	       object.priority << ZM_STATE_PRIORITY_SHIFT |
	       object.size << ZM_STATE_SIZE_SHIFT;
}

static inline enum zm_kind zm_state_kind(u32 state)
{
	return state >> ZM_STATE_KIND_SHIFT & ZM_STATE_KIND_MASK;
}

static inline u32 zm_state_priority(u32 state)
{
	return (state & ZM_STATE_PRIORITY_MASK) >> ZM_STATE_PRIORITY_SHIFT;
}

/* An object of its own or a share's, in the pool or on the backing device. */
static inline bool zm_state_has_object(u32 state)
{
	enum zm_kind kind = zm_state_kind(state);

	return kind == ZM_KIND_OBJECT || kind == ZM_KIND_SHARE;
}

static inline void zm_slot_lock(struct zm_slot *slot)
	zm_acquires(slot)
{
	zm_bit_lock(&slot->state, ZM_LOCK_SLOT);
}

#define zm_slot_trylock(slot) \
	zm_acquired_if(slot, zm_bit_trylock(&(slot)->state, ZM_LOCK_SLOT))

static inline void zm_slot_unlock(struct zm_slot *slot)
	zm_releases(slot)
{
	zm_bit_unlock(&slot->state, zm_load32(&slot->state), ZM_LOCK_SLOT);
}

/* Two at once, the lower index first. pre: lower < higher. */
static inline void zm_slots_lock(struct zm_slot *lower, struct zm_slot *higher)
{
	zm_bit_lock_two(&lower->state, &higher->state);
}

static inline void zm_slots_unlock(struct zm_slot *lower,
				   struct zm_slot *higher)
{
	zm_bit_unlock_two(&lower->state, &higher->state);
}

static inline void zm_slot_assert_locked(const struct zm_slot *slot)
{
	zm_bit_assert_locked(&slot->state);
}

/* pre: locked. */
static inline struct zm_content zm_slot_content(const struct zm_slot *slot)
{
	return (struct zm_content){
		.value = slot->value,
		.state = zm_load32(&slot->state) & ~1u,
		.fingerprint = zm_load32(&slot->fingerprint),
	};
}

/* The slot was read or written. pre: locked. */
static inline void zm_slot_accessed(struct zm_slot *slot)
{
	u32 state = zm_load32(&slot->state);

	zm_slot_assert_locked(slot);
	if (state & ZM_STATE_IDLE)
		zm_set32(&slot->state, state & ~ZM_STATE_IDLE);
}

/* pre: locked; stays locked. */
static inline void zm_slot_set(struct zm_slot *slot, struct zm_content content)
{
	zm_slot_assert_locked(slot);
	zm_set64(&slot->value, content.value);
	zm_set32(&slot->fingerprint, content.fingerprint);
	zm_set32(&slot->state, content.state | 1u);
}

/* pre: the content is an object of its slot's own. */
static inline struct zm_object zm_content_object(struct zm_content content)
{
	return (struct zm_object){
		.handle = { content.value },
		.size = content.state >> ZM_STATE_SIZE_SHIFT,
		.priority = zm_state_priority(content.state),
	};
}

static inline bool zm_object_is_raw(struct zm_object object)
{
	return object.size == ZM_PAGE_SIZE;
}

#endif /* ZMELD_CORE_SLOT_H */

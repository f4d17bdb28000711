/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A slot: 16 bytes that stand for one page.
 *
 * `state` packs, under the lock in its bit 0:
 *
 *   31         14 13..8     7..6      5      4        3..1  0
 *   object size   (free)    priority  idle   finger-  kind  lock
 *                                            printed
 *
 * `value` is, by kind: nothing (empty), the repeated word (same-filled), the
 * handle (object), the share (share). The size and the priority of a share's
 * object stand in the share. `fingerprint` is of the raw page.
 *
 * Locking: every field is written with the slot locked. All may be read without
 * as hints: the pass and the index do, and look again under the lock before
 * they believe them. A value read so is never followed.
 */
#ifndef ZMELD_CORE_SLOT_H
#define ZMELD_CORE_SLOT_H

#include <zmeld/port.h>

enum zm_kind {
	ZM_KIND_EMPTY,
	ZM_KIND_SAME,
	ZM_KIND_OBJECT,
	ZM_KIND_SHARE,
};

struct zm_slot {
	u64 value;
	u32 state;
	u32 fingerprint;
};

_Static_assert(sizeof(struct zm_slot) == 16, "the metadata budget of a slot");

#define ZM_STATE_KIND_SHIFT	1
#define ZM_STATE_KIND_MASK	7u
#define ZM_STATE_FINGERPRINTED	(1u << 4)
#define ZM_STATE_SIZE_SHIFT	14

_Static_assert(ZM_PAGE_SIZE < (1u << (32 - ZM_STATE_SIZE_SHIFT)),
	       "an object's size fits into a slot's state");

/* Stored bytes: where they are, and how many. Raw when size is a page. */
struct zm_object {
	struct zm_handle handle;
	u32 size;
};

/*
 * An object that several slots use. The object never changes while the share
 * lives, so a slot that holds its reference may read it under its own lock.
 */
struct zm_share {
	struct zm_object object;
	u32 count;	/* slots, and at most one for a running pass */
};

/* What a slot holds, taken out of it or about to be put in. */
struct zm_content {
	u64 value;
	u32 state;		/* without the lock bit */
	u32 fingerprint;
};

static inline u32 zm_state_make(enum zm_kind kind, u32 size)
{
	return (u32)kind << ZM_STATE_KIND_SHIFT | size << ZM_STATE_SIZE_SHIFT;
}

static inline enum zm_kind zm_state_kind(u32 state)
{
	return state >> ZM_STATE_KIND_SHIFT & ZM_STATE_KIND_MASK;
}

static inline u32 zm_state_size(u32 state)
{
	return state >> ZM_STATE_SIZE_SHIFT;
}

static inline bool zm_state_has_object(u32 state)
{
	enum zm_kind kind = zm_state_kind(state);

	return kind == ZM_KIND_OBJECT || kind == ZM_KIND_SHARE;
}

static inline void zm_slot_lock(struct zm_slot *slot)
{
	zm_bit_lock(&slot->state);
}

static inline bool zm_slot_trylock(struct zm_slot *slot)
{
	return zm_bit_trylock(&slot->state);
}

static inline void zm_slot_unlock(struct zm_slot *slot)
{
	zm_bit_unlock(&slot->state, zm_load32(&slot->state));
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

/* pre: locked; stays locked. */
static inline void zm_slot_set(struct zm_slot *slot, struct zm_content content)
{
	zm_set64(&slot->value, content.value);
	zm_set32(&slot->fingerprint, content.fingerprint);
	zm_set32(&slot->state, content.state | 1u);
}

static inline struct zm_share *zm_content_share(struct zm_content content)
{
	return (struct zm_share *)(uintptr_t)content.value;
}

/* pre: the content has an object. */
static inline struct zm_object zm_content_object(struct zm_content content)
{
	if (zm_state_kind(content.state) == ZM_KIND_SHARE)
		return zm_content_share(content)->object;
	return (struct zm_object){
		.handle = { content.value },
		.size = zm_state_size(content.state),
	};
}

static inline bool zm_object_is_raw(struct zm_object object)
{
	return object.size == ZM_PAGE_SIZE;
}

#endif /* ZMELD_CORE_SLOT_H */

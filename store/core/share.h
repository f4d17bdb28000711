/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A share: an object that several slots use, or that is on its way between the
 * pool and a backing device.
 *
 * The page that a share stands for never changes. Where and how its bytes are
 * stored does: recompression puts another object in its place, a writeback a
 * block. `state` packs, under the lock in its bit 0:
 *
 *   31..10  9..8   7..6      5     4        3        2        1       0
 *   pins    tried  priority  idle  incom-   writing  backed  may be   lock
 *                                  pressible                 idle
 *
 * `place` is the handle, or the block where the share is backed; `size` are the
 * stored bytes there, a page for a raw one. `count` are the slots; `held` are
 * those who use the share without a slot: readers of its block, the writer of
 * its block, the pass, recompression.
 *
 * `pins` are those who read the object where it stands, with no lock, for the
 * time of one decompression. While there are any, nothing takes the object's
 * place: recompression and writeback of the page come to nothing.
 *
 * Invariants:
 *   - a share whose last slot let go of it (an orphan) counts no more; its object
 *     is freed as soon as nobody has pinned it, its block and itself as soon as
 *     nobody holds it either;
 *   - what is pinned is in the pool;
 *   - an orphan gets no slots any more, nor does one that has
 *     ZM_SHARE_SLOTS_MAX of them: the next page starts another share;
 *   - `idle` says that no slot of it was accessed since all were marked; `may be
 *     idle`, that none was that the marking came to (idle.c).
 *
 * Locking: every field under the share's lock, which is taken after the locks
 * of slots and held for a copy or a comparison of stored bytes, never for a
 * decompression. Whoever locks a share holds it, has pinned it, or has locked a slot
 * of it.
 */
#ifndef ZMELD_CORE_SHARE_H
#define ZMELD_CORE_SHARE_H

#include "slot.h"

struct zm_share {
	u64 place;
	u32 size;
	u32 state;
	u32 count;
	u32 held;
};

_Static_assert(sizeof(struct zm_share) == ZM_SHARE_BYTES, "the metadata of a share");

#define ZM_SHARE_MAY_BE_IDLE	(1u << 1)
#define ZM_SHARE_BACKED		(1u << 2)
#define ZM_SHARE_WRITING	(1u << 3)
#define ZM_SHARE_INCOMPRESSIBLE	(1u << 4)
#define ZM_SHARE_IDLE		(1u << 5)
/* What goes with any access. */
#define ZM_SHARE_IDLE_MASK	(ZM_SHARE_IDLE | ZM_SHARE_MAY_BE_IDLE)
/* The hardest codec that was tried on this object and did not help; 0: none. */
#define ZM_SHARE_TRIED_SHIFT	8
#define ZM_SHARE_TRIED_MASK	(3u << ZM_SHARE_TRIED_SHIFT)
#define ZM_SHARE_PIN		(1u << 10)	/* the lowest bit of their number */

_Static_assert(ZM_SHARE_TRIED_SHIFT == ZM_STATE_PRIORITY_SHIFT + 2 &&
	       ZM_SHARE_PIN == ZM_SHARE_TRIED_MASK + (1u << ZM_SHARE_TRIED_SHIFT),
	       "the fields of a share's state lie side by side");

static inline void zm_share_lock(struct zm_share *share)
	zm_acquires(share)
{
	zm_bit_lock(&share->state, ZM_LOCK_SHARE);
}

static inline void zm_share_unlock(struct zm_share *share)
	zm_releases(share)
{
	zm_bit_unlock(&share->state, zm_load32(&share->state), ZM_LOCK_SHARE);
}

static inline void zm_share_assert_locked(const struct zm_share *share)
{
	zm_bit_assert_locked(&share->state);
}

/* The bits of `set` instead of those of `clear`. pre: locked; stays locked. */
static inline void zm_share_mark(struct zm_share *share, u32 clear, u32 set)
{
	u32 state = zm_load32(&share->state);

	zm_share_assert_locked(share);
	zm_set32(&share->state, (state & ~clear) | set);
}

/* pre: locked, or only a hint is wanted. */
static inline bool zm_share_is(const struct zm_share *share, u32 what)
{
	return zm_load32(&share->state) & what;
}

/* pre: locked. */
static inline bool zm_share_is_pinned(const struct zm_share *share)
{
	return zm_load32(&share->state) >= ZM_SHARE_PIN;
}

/* Whether its object is in the pool. pre: locked. */
static inline bool zm_share_is_here(const struct zm_share *share)
{
	zm_share_assert_locked(share);
	return share->count && !zm_share_is(share, ZM_SHARE_BACKED);
}

/* pre: locked, in the pool. */
static inline struct zm_object zm_share_object(const struct zm_share *share)
{
	zm_share_assert_locked(share);
	return (struct zm_object){
		.handle = { share->place },
		.size = share->size,
		.priority = zm_state_priority(zm_load32(&share->state)),
	};
}

/* A slot of it was read. pre: that slot, or another of it, is locked. */
static inline void zm_share_accessed(struct zm_share *share)
{
	if (!zm_share_is(share, ZM_SHARE_IDLE_MASK))
		return;
	zm_share_lock(share);
	zm_share_mark(share, ZM_SHARE_IDLE_MASK, 0);
	zm_share_unlock(share);
}

/* The share of a slot's content. pre: it is of that kind. */
static inline struct zm_share *zm_content_share(struct zm_content content)
{
	return (struct zm_share *)(uintptr_t)content.value;
}

#endif /* ZMELD_CORE_SHARE_H */

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Picking: which slots and shares a request is about, be it a recompression or a
 * writeback ("made anew" and "sent away" in store.h).
 *
 * What is picked has an object in the pool, and is all that was asked for of
 * enum zm_pick. A slot answers for an object of its own; of a share it knows no
 * more than whether it is idle itself, and the share answers for the rest.
 *
 * Invariant: what a share stands for is picked for being idle only where all its
 * slots are; see idle.c.
 */
#include "store.h"

/* What a slot says alone. Of a slot that is not locked: a hint. */
bool zm_slot_is_picked(struct zm_content content, u32 which)
{
	if (!zm_state_has_object(content.state))
		return false;
	if (which & ZM_PICK_IDLE && !(content.state & ZM_STATE_IDLE))
		return false;
	if (zm_state_kind(content.state) == ZM_KIND_SHARE)
		return true;
	if (which & ZM_PICK_HUGE &&
	    !zm_object_is_raw(zm_content_object(content)))
		return false;
	return !(which & ZM_PICK_INCOMPRESSIBLE) ||
	       content.state & ZM_STATE_INCOMPRESSIBLE;
}

/* One that is being written to a block is busy, and not picked. pre: locked. */
bool zm_share_is_picked(const struct zm_share *share, u32 which)
{
	if (!zm_share_is_here(share) || zm_share_is(share, ZM_SHARE_WRITING))
		return false;
	if (which & ZM_PICK_IDLE && !zm_share_is(share, ZM_SHARE_IDLE))
		return false;
	if (which & ZM_PICK_HUGE && !zm_object_is_raw(zm_share_object(share)))
		return false;
	return !(which & ZM_PICK_INCOMPRESSIBLE) ||
	       zm_share_is(share, ZM_SHARE_INCOMPRESSIBLE);
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A share's word, its slots and its pins: from any state that the invariants of
 * core/share.h allow, with one thread.
 */
#include "proof.h"

#include "../../core/share.c"

static u32 objects_freed, shares_freed, blocks_freed;

/* The port, as far as it is called. */
__thread u32 zm_port_lane = 1;

u32 zm_port_lane_take(void)
{
	return 1;
}

void zm_port_relax(u32 tries)
{
	prove(!tries);
}

void zm_port_pool_free(struct zm_pool *pool, struct zm_handle handle)
{
	(void)pool;
	(void)handle;
	objects_freed++;
}

void zm_port_small_free(void *memory, size_t size)
{
	(void)memory;
	(void)size;
	shares_freed++;
}

void zm_block_free(struct zm_store *store, u64 block)
{
	(void)store;
	(void)block;
	blocks_freed++;
}

static u32 pins_of(const struct zm_share *share)
{
	return share->state / ZM_SHARE_PIN;
}

static struct zm_share any_share(void)
{
	struct zm_share share = {
		.place = nondet_u64(), .size = nondet_u32(),
		.state = nondet_u32() & ~1u, .count = nondet_u32(),
		.held = nondet_u32(),
	};

	assume(share.size && share.size <= ZM_PAGE_SIZE);
	/* What is pinned is in the pool; somebody has it. */
	assume(!pins_of(&share) || !(share.state & ZM_SHARE_BACKED));
	assume(share.count || share.held || pins_of(&share));
	assume(pins_of(&share) < (1u << 22) - 1);
	return share;
}

/* A pin is one more, and nothing else; where the object is not here, nothing. */
PROOF(pin_adds_one, 8, 8, 10)
{
	struct zm_share share = any_share(), before = share;
	struct zm_object object;
	bool here = share.count && !(share.state & ZM_SHARE_BACKED);

	prove(zm_share_pin(&share, &object) == here);
	prove(share.state == before.state + (here ? ZM_SHARE_PIN : 0));
	prove(share.count == before.count && share.held == before.held);
	if (here)
		prove(object.handle.value == before.place &&
		      object.size == before.size);
}

/* The last pin of an orphan frees its object, once; the last user the share. */
PROOF(unpin_frees_the_last, 8, 8, 10)
{
	struct zm_share share = any_share(), before = share;
	static struct zm_store store;
	bool last;

	assume(pins_of(&share));
	last = !before.count && pins_of(&before) == 1;
	zm_share_unpin(&store, &share);
	prove(share.state == before.state - ZM_SHARE_PIN);
	prove(objects_freed == last);
	prove(shares_freed == (last && !before.held));
}

/* A slot joins what is here and not full, and the count is one more then. */
PROOF(take_counts_one, 8, 8, 10)
{
	struct zm_share share = any_share(), before = share;
	static struct zm_counters counters;
	struct zm_store store = { .counters = &counters };
	struct zm_content content;
	bool joins = share.count && !(share.state & ZM_SHARE_BACKED) &&
		     share.count < ZM_SHARE_SLOTS_MAX;
	u32 flags = nondet_bool() ? ZM_STATE_IDLE : 0;

	prove(zm_share_take(&store, &share, nondet_u32(), flags,
			    &content) == joins);
	prove(share.count == before.count + joins);
	prove(share.state == (joins && !flags ?
			      before.state & ~ZM_SHARE_IDLE_MASK :
			      before.state));
	if (joins)
		prove(zm_content_share(content) == &share);
}

/* Nothing but these moves; what is freed is freed once. */
static void share_prove(const struct zm_share *share,
			const struct zm_share *before, u32 count, u32 held)
{
	bool backed = before->state & ZM_SHARE_BACKED;
	bool orphan = !count, gone = orphan && !held && !pins_of(before);

	prove(share->count == count && share->held == held);
	prove(share->state == before->state && share->place == before->place);
	prove(shares_freed == gone);
	prove(blocks_freed == (gone && backed));
	prove(objects_freed == (orphan && before->count && !backed &&
				!pins_of(before)));
}

/* The last slot frees the object that nobody reads, and the share that nobody holds. */
PROOF(release_takes_one_slot, 8, 8, 10)
{
	struct zm_share share = any_share(), before = share;
	static struct zm_counters counters;
	struct zm_store store = { .counters = &counters };
	u32 freed;

	assume(before.count);
	freed = zm_share_release(&store, &share);
	share_prove(&share, &before, before.count - 1, before.held);
	prove(freed == (share.count || (before.state & ZM_SHARE_BACKED) ?
			0 : before.size));
}

/* Who holds a share may put it once, and the last of an orphan frees it. */
PROOF(put_undoes_hold, 8, 8, 10)
{
	struct zm_share share = any_share(), before = share;
	static struct zm_counters counters;
	struct zm_store store = { .counters = &counters };
	bool holds = nondet_bool();

	assume(before.held < ~0u && (holds || before.held));
	zm_share_lock(&share);
	if (holds) {
		zm_share_hold(&store, &share);
		prove(share.held == before.held + 1);
		prove(share.count == before.count);
		prove(share.state == (before.state | 1));
	}
	zm_share_put(&store, &share);
	share_prove(&share, &before, before.count,
		    before.held - (holds ? 0 : 1));
}

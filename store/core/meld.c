// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The pass's last step: within each group of one fingerprint, the first page is
 * compared with each other; equal ones get the first one's share. Those that
 * differ (a collision) form the next group.
 *
 * Stored bytes are compared where one codec made them, pages where two did. What
 * stands on a backing device is passed over: comparing it would take I/O.
 *
 * Locking: two slots for the first two of a group, the lower index first; then
 * one at a time, with the share held. One share at a time. Nothing is
 * decompressed under them: where pages have to be compared, both slots' stored
 * bytes are copied, their pages are made and compared with no lock, and equal
 * ones are melded where the slots, locked again, still have these bytes.
 *
 * Its place in the life of a page: "shared" in store.h.
 */
#include "pass.h"

/* Between two looks at the stop where hardly any has a twin. */
#define SUSPECTS_PER_BATCH 1024

/* Whether a locked slot still is what the pass took it for. */
static bool slot_still(struct zm_content content, u32 fingerprint)
{
	return zm_state_has_object(content.state) &&
	       content.state & ZM_STATE_FINGERPRINTED &&
	       content.fingerprint == fingerprint;
}

static void count_dropped(struct zm_pass *pass, struct zm_content old)
{
	u32 freed = zm_content_release(pass->store, old);

	if (!freed)
		return;
	pass->result->pages_melded++;
	pass->result->bytes_saved += freed;
	zm_count(&pass->store->counters->pass_melded);
}

/*
 * Gives the slot the share; *old is what it held. False where the share is full
 * or has left the pool. pre: the slot is locked and holds the share's page.
 */
static bool slot_join(struct zm_pass *pass, struct zm_slot *slot,
		      struct zm_share *share, struct zm_content *old)
{
	struct zm_content content = zm_slot_content(slot), joined;
	u32 flags = content.state & (ZM_STATE_FINGERPRINTED | ZM_STATE_IDLE);

	if (!zm_share_take(pass->store, share, content.fingerprint, flags,
			   &joined))
		return false;
	zm_slot_set(slot, joined);
	/* The share counted this slot in; its own object counts no more. */
	if (zm_state_kind(content.state) == ZM_KIND_OBJECT &&
	    zm_object_is_raw(zm_content_object(content)))
		zm_uncount(&pass->store->counters->pages_raw);
	*old = content;
	return true;
}

/* Keeps the share for the rest of the group. pre: a slot of it is locked. */
static void pass_hold(struct zm_pass *pass, struct zm_share *share)
{
	zm_share_lock(share);
	zm_share_hold(pass->store, share);
	zm_share_unlock(share);
	pass->leader_share = share;
}

static void pass_let_go(struct zm_pass *pass)
{
	if (!pass->leader_share)
		return;
	zm_share_lock(pass->leader_share);
	zm_share_put(pass->store, pass->leader_share);
	pass->leader_share = NULL;
}

enum outcome {
	MELDED,		/* or shared already: the slot is done with */
	DIFFERS,	/* a collision: it may have another twin */
	OTHER_CODEC,		/* made by two codecs: bytes tell nothing */
	GONE,		/* the slot changed meanwhile */
	BACKED,		/* the slot's page is not in the pool */
	LEADER_GONE,	/* the first page changed meanwhile, or its share is full */
	LEADER_BACKED,	/* the first page is not in the pool */
};

/* Copies the first page's stored bytes. False: they are not in the pool. */
static bool leader_copy(struct zm_pass *pass, struct zm_content leader)
{
	pass->page_is_made = false;
	return zm_content_copy(pass->store, leader, pass->held_bytes,
			       &pass->copy);
}

/*
 * Compares a slot's stored bytes with the first page's copy; or, once these were
 * found to be one page, again with what was copied of its own: GONE where it has
 * others by now. OTHER_CODEC: they are copied. pre: the slot is locked.
 */
static enum outcome leader_compare(struct zm_pass *pass,
				   struct zm_content content, bool again)
{
	switch (zm_content_compare(pass->store, pass->stream, content,
				   again ? &pass->other : &pass->copy)) {
	case ZM_LOOK_EQUAL:
		return MELDED;
	case ZM_LOOK_DIFFERS:
		return again ? GONE : DIFFERS;
	case ZM_LOOK_BACKED:
		return BACKED;
	case ZM_LOOK_OTHER_CODEC:
		break;
	}
	if (again)
		return GONE;
	/* The first page of packed is for comparisons. */
	return zm_content_copy(pass->store, content,
			       pass->stream->packed + ZM_PAGE_SIZE,
			       &pass->other) ? OTHER_CODEC : BACKED;
}

/*
 * Whether the copies of two codecs' bytes are of one page. Of a damaged one they
 * are not: who reads it is told. pre: nothing is locked.
 */
static bool copies_are_equal(struct zm_pass *pass)
{
	const struct zm_copy *copy = &pass->copy, *other = &pass->other;
	u8 *page = pass->stream->page;

	if (!pass->page_is_made &&
	    zm_bytes_unpack(pass->store, pass->stream, copy->priority,
			    copy->bytes, copy->size, pass->held_page))
		return false;
	pass->page_is_made = true;
	return !zm_bytes_unpack(pass->store, pass->stream, other->priority,
				other->bytes, other->size, page) &&
	       zm_equal(page, pass->held_page, ZM_PAGE_SIZE);
}

/*
 * pre: both locked, their pages are equal and they do not share yet. Makes
 * them share and holds the share; *old is what is left to release, of either.
 * GONE, LEADER_GONE: the share of that one is full, or left the pool just now.
 */
static enum outcome slots_meld(struct zm_pass *pass, struct zm_slot *leader,
			       struct zm_slot *follower, struct zm_content *old)
{
	struct zm_content first = zm_slot_content(leader);
	struct zm_content second = zm_slot_content(follower);
	struct zm_share *share;

	if (zm_state_kind(first.state) == ZM_KIND_OBJECT &&
	    zm_state_kind(second.state) == ZM_KIND_SHARE) {
		share = zm_content_share(second);
		if (!slot_join(pass, leader, share, old))
			return GONE;
		pass_hold(pass, share);
		return MELDED;
	}
	if (zm_state_kind(first.state) == ZM_KIND_OBJECT) {
		zm_slot_make_share(pass->store, leader, pass->stream->spare);
		pass->stream->spare = NULL;
		pass->result->bytes_metadata += sizeof(struct zm_share);
		first = zm_slot_content(leader);
	}
	share = zm_content_share(first);
	if (!slot_join(pass, follower, share, old))
		return LEADER_GONE;
	pass_hold(pass, share);
	return MELDED;
}

/* MELDED: the first page still has the bytes that were copied. pre: locked. */
static enum outcome leader_look(struct zm_pass *pass, struct zm_content leader)
{
	switch (zm_content_compare(pass->store, pass->stream, leader,
				   &pass->copy)) {
	case ZM_LOOK_EQUAL:
		return MELDED;
	case ZM_LOOK_BACKED:
		return LEADER_BACKED;
	default:
		return LEADER_GONE;
	}
}

/*
 * Two locked slots that are what the pass took them for. again: their copies
 * were found to be of one page.
 */
static enum outcome meld_pair(struct zm_pass *pass, struct zm_slot *leader,
			      struct zm_slot *follower, bool again,
			      struct zm_content *old)
{
	struct zm_content a = zm_slot_content(leader);
	struct zm_content b = zm_slot_content(follower);
	enum outcome outcome = MELDED;

	if (again)
		outcome = leader_look(pass, a);
	else if (!leader_copy(pass, a))
		outcome = LEADER_BACKED;
	if (outcome != MELDED)
		return outcome;
	if (zm_state_kind(a.state) == ZM_KIND_SHARE && a.value == b.value &&
	    zm_state_kind(b.state) == ZM_KIND_SHARE) {
		pass_hold(pass, zm_content_share(a));
		return MELDED;
	}
	outcome = leader_compare(pass, b, again);
	return outcome == MELDED ? slots_meld(pass, leader, follower, old) :
				   outcome;
}

/* The group's first page with another: both locked. */
static enum outcome meld_first(struct zm_pass *pass, u64 leader_index,
			       u64 follower_index, u32 fingerprint, bool again)
{
	struct zm_slot *slots = pass->store->slots;
	struct zm_slot *leader = &slots[leader_index];
	struct zm_slot *follower = &slots[follower_index];
	bool in_order = leader_index < follower_index;
	struct zm_slot *lower = in_order ? leader : follower;
	struct zm_slot *higher = in_order ? follower : leader;
	struct zm_content old = { 0 };
	enum outcome outcome;

	zm_slots_lock(lower, higher);
	if (!slot_still(zm_slot_content(leader), fingerprint))
		outcome = LEADER_GONE;
	else if (!slot_still(zm_slot_content(follower), fingerprint))
		outcome = GONE;
	else
		outcome = meld_pair(pass, leader, follower, again, &old);
	zm_slots_unlock(lower, higher);
	if (zm_state_has_object(old.state))
		count_dropped(pass, old);
	return outcome;
}

/* One more page with the share that the pass holds: its slot locked. */
static enum outcome meld_next(struct zm_pass *pass, u64 index, u32 fingerprint,
			      bool again)
{
	struct zm_slot *slot = &pass->store->slots[index];
	struct zm_content content, old = { 0 };
	enum outcome outcome = MELDED;

	zm_slot_lock(slot);
	content = zm_slot_content(slot);
	if (!slot_still(content, fingerprint))
		outcome = GONE;
	else if (zm_state_kind(content.state) != ZM_KIND_SHARE ||
		 zm_content_share(content) != pass->leader_share)
		outcome = leader_compare(pass, content, again);
	else
		goto unlock;	/* shares already */
	if (outcome == MELDED && !slot_join(pass, slot, pass->leader_share, &old))
		outcome = LEADER_GONE;
unlock:
	zm_slot_unlock(slot);
	if (zm_state_has_object(old.state))
		count_dropped(pass, old);
	return outcome;
}

static enum outcome meld_try(struct zm_pass *pass, u64 leader, u64 follower,
			     bool again)
{
	u32 fingerprint = zm_suspect_fingerprint(leader);

	if (pass->leader_share)
		return meld_next(pass, zm_suspect_slot(follower), fingerprint,
				 again);
	return meld_first(pass, zm_suspect_slot(leader),
			  zm_suspect_slot(follower), fingerprint, again);
}

static enum outcome meld_one(struct zm_pass *pass, u64 leader, u64 follower)
{
	enum outcome outcome = meld_try(pass, leader, follower, false);

	if (outcome != OTHER_CODEC)
		return outcome;
	return copies_are_equal(pass) ?
	       meld_try(pass, leader, follower, true) : DIFFERS;
}

/* Suspects of one fingerprint; the first leads. */
struct group {
	u64 *at;
	u64 count;
	u64 tries;		/* comparisons left, whatever others do */
	u64 next;		/* the one that is compared now */
};

/*
 * The leader vanished while at[next] was compared with it: that one leads now,
 * and is compared with those that were found to differ from the old leader,
 * which move up to it, and with those still to come.
 */
static void lead_anew(struct group *group, u64 kept, u64 next)
{
	u64 first = next + 1 - kept, leader = group->at[next];

	memmove(group->at + first + 1, group->at + 1,
		(kept - 1) * sizeof(*group->at));
	group->at[first] = leader;
	group->at += first;
	group->count -= first;
}

/* Shares are made under locks, where memory cannot be had. */
static bool spare_is_ready(struct zm_pass *pass)
{
	if (!pass->stream->spare)
		pass->stream->spare = zm_share_create(true);
	return pass->stream->spare;
}

/* Before each comparison. */
static int pass_prepare(struct zm_pass *pass)
{
	if (!spare_is_ready(pass))
		return -ENOMEM;
	if (++pass->compared % ZM_COMPARED_PER_BATCH)
		return 0;
	return zm_pass_pause(pass);
}

/*
 * Melds what is equal to the group's leader; what differs moves up behind it.
 * The group gets shorter, at its end and where leaders vanished at its front.
 * -ENOMEM, -EINTR: not all of it was done.
 */
static int meld_leader(struct zm_pass *pass, struct group *group)
{
	u64 kept = 1, i;
	int err;

	for (i = 1; i < group->count; i++) {
		if (!group->tries)
			return 0;
		group->tries--;
		group->next = i;
		err = pass_prepare(pass);
		if (err)
			return err;
		switch (meld_one(pass, group->at[0], group->at[i])) {
		case MELDED:
			break;
		case DIFFERS:
			pass->result->collisions++;
			group->at[kept++] = group->at[i];
			break;
		case GONE:
		case OTHER_CODEC:	/* is not what becomes of a try */
			pass->result->raced++;
			break;
		case BACKED:
			pass->result->pages_backed++;
			break;
		case LEADER_GONE:
			pass->result->raced++;
			pass_let_go(pass);
			lead_anew(group, kept, i);
			kept = 1;
			i = 0;
			break;
		case LEADER_BACKED:
			pass->result->pages_backed++;
			lead_anew(group, kept, i);
			kept = 1;
			i = 0;
			break;
		}
	}
	group->count = kept;
	return 0;
}

/*
 * The pass is stopped while it compares with the group's first leader; with a
 * later one it leaves the rest of the group.
 */
static void group_stopped(struct zm_pass *pass, const struct group *group,
			  bool first)
{
	struct zm_resume *resume = &pass->store->resume;
	u64 next = group->at[group->next];

	zm_port_mutex_assert_held(pass->store->pass_mutex);
	resume->fingerprint = zm_suspect_fingerprint(next);
	resume->slots_done = first ? zm_suspect_slot(next) : ZM_SLOTS_MAX;
}

/*
 * Melds a group of suspects with one fingerprint. One page of each content, up
 * to ZM_LEADERS_MAX, stays at the group's front, in case more of its kind are
 * to come; returns how many, or -errno.
 */
s64 zm_group_meld(struct zm_pass *pass, u64 *suspects, u64 count)
{
	struct group group = {
		.at = suspects, .count = count, .tries = ZM_LEADERS_MAX * count,
	};
	u64 leaders = 0;
	int err;

	pass->result->candidates += count;
	while (group.count && group.tries && leaders < ZM_LEADERS_MAX) {
		err = meld_leader(pass, &group);
		pass_let_go(pass);
		if (err == -EINTR)
			group_stopped(pass, &group, !leaders);
		if (err)
			return err;
		suspects[leaders++] = group.at[0];
		group.at++;
		group.count--;
	}
	pass->result->pages_crowded += group.count;
	return leaders;
}

/*
 * The suspects' slots and objects lie anywhere in memory, so each is asked for
 * some suspects before its turn: the slot first, then what the slot names.
 */
enum { AHEAD_SLOT = 16, AHEAD_HANDLE = 8, AHEAD_MAX = 64 };

/* Whether a neighbour has the same fingerprint: the others are not looked at. */
static bool has_candidate_twin(const struct zm_pass *pass, u64 i)
{
	u32 fingerprint = zm_suspect_fingerprint(pass->suspects[i]);

	return (i && zm_suspect_fingerprint(pass->suspects[i - 1]) ==
		fingerprint) ||
	       (i + 1 < pass->suspect_count &&
		zm_suspect_fingerprint(pass->suspects[i + 1]) == fingerprint);
}

static void prefetch_ahead(struct zm_pass *pass, u64 from, u64 to)
{
	u64 *suspects = pass->suspects, count = pass->suspect_count, i;

	/* A large group would push out of the caches what it asked for. */
	if (to - from > AHEAD_MAX)
		from = to - AHEAD_MAX;
	for (i = from + AHEAD_SLOT; i < to + AHEAD_SLOT && i < count; i++)
		if (has_candidate_twin(pass, i))
			zm_prefetch(&pass->store->slots
				    [zm_suspect_slot(suspects[i])]);
	for (i = from + AHEAD_HANDLE; i < to + AHEAD_HANDLE && i < count; i++)
		if (has_candidate_twin(pass, i))
			zm_slot_prefetch(pass->store, &pass->store->slots
					 [zm_suspect_slot(suspects[i])]);
}

/* Sorted suspects: melds each group. -EINTR: asked to stop. */
int zm_suspects_meld(struct zm_pass *pass)
{
	u64 *suspects = pass->suspects;
	u64 count = pass->suspect_count;
	u64 i, next, look_at = 0;
	s64 leaders;

	for (i = 0; i < count; i = next) {
		u32 fingerprint = zm_suspect_fingerprint(suspects[i]);

		if (i >= look_at) {
			look_at = i + SUSPECTS_PER_BATCH;
			pass->store->resume.from = fingerprint;
			if (zm_pass_pause(pass))
				return -EINTR;
		}
		next = zm_suspects_below(suspects, i, count,
					 (u64)fingerprint + 1);
		prefetch_ahead(pass, i, next);
		if (next == i + 1)
			continue;
		leaders = zm_group_meld(pass, suspects + i, next - i);
		if (leaders == -EINTR)
			pass->store->resume.from = fingerprint;
		if (leaders < 0)
			return (int)leaders;
	}
	return 0;
}

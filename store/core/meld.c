// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The pass: finds every pair of identical pages and makes them share.
 *
 * It reads fingerprints, which were taken when the pages were written; it
 * neither hashes nor decompresses. Four steps:
 *
 *   sample   the slots whose fingerprint falls into one part in 2^k. Twins
 *            fall in or out together, so the share of duplicates among them
 *            estimates the whole's; only few large groups may all be out. So
 *            some slots are picked by chance as well: a large group is among
 *            them many times over. The larger share counts. Below the
 *            threshold the pass ends here, after one walk over the slots.
 *   find     a table of 2-bit cells, sixteen for each page, notes which cells
 *            a fingerprint fell into once, and which more often. It may
 *            suspect too many, never too few.
 *   collect  the suspects, as words of fingerprint and slot, and sort them:
 *            equal fingerprints now stand together.
 *   meld     within each group the first page's stored bytes are compared
 *            with each other's; equal ones get the first one's share. Those
 *            that differ (a collision) form the next group.
 *
 * Memory is bounded: half of it for the cells, half for the suspects. When
 * these do not fit, the upper half of them by fingerprint is dropped and the
 * round covers the lower range only; the next round covers the rest. A group
 * too large even so is melded in pieces, each of which leaves one page to
 * compare the next piece with.
 *
 * Invariants:
 *   - stored bytes are compared under the locks of the slots that hold them, or
 *     with a reference to the share they are in;
 *   - two slots are locked only here, the lower index first;
 *   - slots that change while the pass runs may be missed; all others with
 *     equal pages and fingerprints share when it ends.
 */
#include "store.h"

#define SAMPLE_MIN	512
#define SAMPLE_MAX	4096
#define PICKS		512
#define MEMORY_MIN	(64u << 10)
#define SLOTS_A_TURN	4096
#define CELLS_A_WORD	32

/* One fingerprint of one slot, sorted by fingerprint. */
static inline u64 suspect_make(u32 fingerprint, u64 slot)
{
	return (u64)fingerprint << 32 | slot;
}

static inline u32 suspect_fingerprint(u64 suspect)
{
	return suspect >> 32;
}

static inline u64 suspect_slot(u64 suspect)
{
	return suspect & 0xffffffffu;
}

struct zm_pass {
	struct zm_store *store;
	struct zm_stream *stream;
	struct zm_meld_result *result;
	u64 started_ns;
	u64 time_ns_max;

	u64 *cells;		/* 2 bits each */
	u64 cell_count;
	u64 cell_bytes;
	u64 *suspects;
	u64 suspect_count;
	u64 suspect_max;
	u64 suspect_bytes;

	/* The group's first page, once it is known to have a twin. */
	struct zm_share *held;	/* with a reference of the pass's own */
	u8 *held_bytes;		/* copy of its stored bytes */
};

static bool pass_should_stop(struct zm_pass *pass)
{
	u64 now;

	if (zm_load32(&pass->store->pass_stop))
		return true;
	if (!pass->time_ns_max)
		return false;
	now = zm_port_time_ns();
	return now - pass->started_ns > pass->time_ns_max;
}

/* Whether a slot, looked at without its lock, may have a twin. */
static inline bool slot_counts(const struct zm_slot *slot, u32 *fingerprint)
{
	u32 state = zm_load32(&slot->state);

	if (!(state & ZM_STATE_FINGERPRINTED))
		return false;
	*fingerprint = zm_load32(&slot->fingerprint);
	return true;
}

/* The slots of a turn: what is done between two looks at the clock. */
static u64 turn_end(const struct zm_store *store, u64 start)
{
	u64 left = store->slot_count - start;

	return start + (left < SLOTS_A_TURN ? left : SLOTS_A_TURN);
}

/* -- Sample ---------------------------------------------------------------- */

/*
 * One page in 32, but at least SAMPLE_MIN and at most half of what there is
 * room for, so that chance does not overflow it.
 */
static u32 sample_shift(u64 pages)
{
	u64 wanted = pages / 32;
	u32 shift = 0;

	if (wanted < SAMPLE_MIN)
		wanted = SAMPLE_MIN;
	if (wanted > SAMPLE_MAX / 2)
		wanted = SAMPLE_MAX / 2;
	while (shift < 31 && pages >> shift > wanted)
		shift++;
	return shift;
}

/*
 * Among sorted samples, pages that melding would drop. The lowest bit tells a
 * page that shares already: a group of those needs one object, not one each.
 */
static u64 sample_duplicates(const u64 *sample, u64 count)
{
	u64 duplicates = 0, i, next, alone, shared;

	for (i = 0; i < count; i = next) {
		alone = 0;
		shared = 0;
		for (next = i; next < count &&
		     sample[next] >> 1 == sample[i] >> 1; next++) {
			if (sample[next] & 1)
				shared = 1;
			else
				alone++;
		}
		if (alone)
			duplicates += alone + shared - 1;
	}
	return duplicates;
}

/* One word of a sample: the lowest bit tells a page that shares already. */
static inline u64 sample_make(const struct zm_slot *slot, u32 state)
{
	return (u64)zm_load32(&slot->fingerprint) << 1 |
	       (zm_state_kind(state) == ZM_KIND_SHARE);
}

/* The slots from start to end into the sample; returns its new size. */
static u64 sample_turn(struct zm_pass *pass, u64 start, u64 end, u32 shift,
		       u64 *sample, u64 count)
{
	const struct zm_slot *slots = pass->store->slots;
	u64 stored = 0, unfingerprinted = 0, index;
	u32 fingerprint, state;

	for (index = start; index < end; index++) {
		state = zm_load32(&slots[index].state);
		if (!(state & ZM_STATE_FINGERPRINTED)) {
			unfingerprinted += zm_state_has_object(state);
			continue;
		}
		stored++;
		fingerprint = zm_load32(&slots[index].fingerprint);
		/* Twice, since a shift by all 32 bits is not defined. */
		if (fingerprint >> 1 >> (31 - shift) || count == SAMPLE_MAX)
			continue;
		sample[count++] = sample_make(&slots[index], state);
	}
	pass->result->pages_stored += stored;
	pass->result->pages_unfingerprinted += unfingerprinted;
	return count;
}

/* Slots anywhere: one from each of PICKS equal parts, where chance says. */
static u64 sample_picks(struct zm_pass *pass, u64 *sample)
{
	struct zm_store *store = pass->store;
	u64 part = store->slot_count / PICKS, count = 0, i, mixed;
	struct zm_slot *slot;
	u32 state;

	if (!part)
		return 0;
	for (i = 0; i < PICKS; i++) {
		mixed = (i + 1) * 0x9e3779b97f4a7c15ull >> 32;
		slot = &store->slots[i * part + (mixed * part >> 32)];
		state = zm_load32(&slot->state);
		if (state & ZM_STATE_FINGERPRINTED)
			sample[count++] = sample_make(slot, state);
	}
	return count;
}

/* Keeps what was sampled if it repeats more than what is known so far. */
static void sample_count(struct zm_pass *pass, u64 *sample, u64 count)
{
	struct zm_meld_result *result = pass->result;
	u64 duplicates;

	zm_sort64(sample, count);
	duplicates = sample_duplicates(sample, count);
	if (result->pages_sampled && duplicates * result->pages_sampled <=
				     result->duplicates_sampled * count)
		return;
	result->pages_sampled = count;
	result->duplicates_sampled = duplicates;
}

static int pass_sample(struct zm_pass *pass)
{
	struct zm_store *store = pass->store;
	u32 shift = sample_shift(zm_load64(&store->counters.pages_stored));
	u64 bytes = SAMPLE_MAX * sizeof(u64);
	u64 *sample = zm_port_table_alloc(bytes);
	u64 start, end, count = 0;

	if (!sample)
		return -ENOMEM;
	pass->result->memory_borrowed = bytes;
	for (start = 0; start < store->slot_count; start = end) {
		zm_port_yield();
		end = turn_end(store, start);
		count = sample_turn(pass, start, end, shift, sample, count);
	}
	sample_count(pass, sample, count);
	sample_count(pass, sample, sample_picks(pass, sample));
	zm_port_table_free(sample, bytes);
	return 0;
}

/* -- Find ------------------------------------------------------------------ */

/*
 * The cells by themselves: in a walk over all slots they stay in registers,
 * where fields of the pass would be read again after each store to a cell.
 */
struct cells {
	u64 *words;
	u64 count;
};

static inline struct cells pass_cells(const struct zm_pass *pass)
{
	return (struct cells){ pass->cells, pass->cell_count };
}

static inline bool cell_repeats(struct cells cells, u32 fingerprint)
{
	u64 cell = fingerprint * cells.count >> 32;

	return cells.words[cell / CELLS_A_WORD] >> cell % CELLS_A_WORD * 2 & 2;
}

/* 0 becomes 1 (once), 1 and 3 become 3 (more often). */
static inline void cell_note(struct cells cells, u32 fingerprint)
{
	u64 cell = fingerprint * cells.count >> 32;
	u64 *word = &cells.words[cell / CELLS_A_WORD];
	u32 shift = cell % CELLS_A_WORD * 2;

	*word |= (*word >> shift & 1) << (shift + 1) | 1ull << shift;
}

static void pass_find(struct zm_pass *pass)
{
	const struct zm_slot *slots = pass->store->slots;
	struct cells cells = pass_cells(pass);
	u64 start, end, index;
	u32 fingerprint;

	for (start = 0; start < pass->store->slot_count; start = end) {
		zm_port_yield();
		end = turn_end(pass->store, start);
		for (index = start; index < end; index++)
			if (slot_counts(&slots[index], &fingerprint))
				cell_note(cells, fingerprint);
	}
}

/* -- Meld ------------------------------------------------------------------ */

/* Whether a locked slot still is what the pass took it for. */
static bool slot_still(struct zm_content content, u32 fingerprint)
{
	return zm_state_has_object(content.state) &&
	       content.state & ZM_STATE_FINGERPRINTED &&
	       content.fingerprint == fingerprint;
}

static void count_dropped(struct zm_pass *pass, struct zm_content old)
{
	u32 size = zm_content_object(old).size;

	if (!zm_content_release(pass->store, old))
		return;
	pass->result->pages_melded++;
	pass->result->bytes_saved += size;
	zm_count(&pass->store->counters.pass_melded);
}

/* pre: the slot is locked and holds the same page as the share. */
static void slot_join(struct zm_pass *pass, struct zm_slot *slot,
		      struct zm_share *share, struct zm_content *old)
{
	*old = zm_slot_content(slot);
	zm_slot_set(slot, zm_share_take(pass->store, share, old->fingerprint));
}

/* Keeps the share and a copy of its bytes for the rest of the group. */
static void pass_hold(struct zm_pass *pass, struct zm_share *share)
{
	zm_get32(&share->count);
	pass->held = share;
}

static void pass_let_go(struct zm_pass *pass)
{
	if (pass->held)
		zm_share_put(pass->store, pass->held);
	pass->held = NULL;
}

enum outcome {
	MELDED,		/* or shared already: the slot is done with */
	DIFFERS,	/* a collision: it may have another twin */
	GONE,		/* the slot changed meanwhile */
	LEADER_GONE,	/* the first page changed meanwhile */
};

/* Copies stored bytes for comparison. pre: the slot's lock keeps the object. */
static void copy_object(struct zm_pass *pass, struct zm_object object)
{
	const void *bytes;

	bytes = zm_port_pool_read_begin(pass->store->pool, object.handle,
					object.size, pass->stream->packed);
	memcpy(pass->held_bytes, bytes, object.size);
	zm_port_pool_read_end(pass->store->pool, object.handle, bytes);
}

/*
 * pre: both locked, their pages are equal and they do not share yet. Makes
 * them share; *old is what is left to release, of either.
 */
static struct zm_share *slots_meld(struct zm_pass *pass, struct zm_slot *leader,
				   struct zm_slot *follower,
				   struct zm_content *old)
{
	struct zm_content first = zm_slot_content(leader);
	struct zm_content second = zm_slot_content(follower);

	if (zm_state_kind(first.state) == ZM_KIND_OBJECT &&
	    zm_state_kind(second.state) == ZM_KIND_SHARE) {
		slot_join(pass, leader, zm_content_share(second), old);
		return zm_content_share(second);
	}
	if (zm_state_kind(first.state) == ZM_KIND_OBJECT) {
		zm_slot_make_share(pass->store, leader, pass->stream->spare);
		pass->stream->spare = NULL;
		pass->result->bytes_metadata += sizeof(struct zm_share);
		first = zm_slot_content(leader);
	}
	slot_join(pass, follower, zm_content_share(first), old);
	return zm_content_share(first);
}

/* The group's first page with another: both locked. */
static enum outcome meld_first(struct zm_pass *pass, u64 leader_index,
			       u64 follower_index, u32 fingerprint)
{
	struct zm_slot *slots = pass->store->slots;
	struct zm_slot *leader = &slots[leader_index];
	struct zm_slot *follower = &slots[follower_index];
	bool in_order = leader_index < follower_index;
	struct zm_content a, b, old = { 0 };
	enum outcome outcome = MELDED;
	struct zm_object object;

	zm_slot_lock(in_order ? leader : follower);
	zm_slot_lock(in_order ? follower : leader);
	a = zm_slot_content(leader);
	b = zm_slot_content(follower);
	if (!slot_still(a, fingerprint)) {
		outcome = LEADER_GONE;
		goto unlock;
	}
	if (!slot_still(b, fingerprint)) {
		outcome = GONE;
		goto unlock;
	}
	object = zm_content_object(a);
	copy_object(pass, object);
	if (zm_state_kind(a.state) == ZM_KIND_SHARE && a.value == b.value &&
	    zm_state_kind(b.state) == ZM_KIND_SHARE)
		pass_hold(pass, zm_content_share(a));
	else if (zm_object_equals(pass->store, pass->stream,
				  zm_content_object(b), pass->held_bytes,
				  object.size))
		pass_hold(pass, slots_meld(pass, leader, follower, &old));
	else
		outcome = DIFFERS;
unlock:
	zm_slot_unlock(leader);
	zm_slot_unlock(follower);
	if (zm_state_has_object(old.state))
		count_dropped(pass, old);
	return outcome;
}

/* One more page with the share that the pass holds: its slot locked. */
static enum outcome meld_next(struct zm_pass *pass, u64 index, u32 fingerprint)
{
	struct zm_slot *slot = &pass->store->slots[index];
	struct zm_content content, old = { 0 };
	enum outcome outcome = MELDED;

	zm_slot_lock(slot);
	content = zm_slot_content(slot);
	if (!slot_still(content, fingerprint))
		outcome = GONE;
	else if (zm_state_kind(content.state) == ZM_KIND_SHARE &&
		 zm_content_share(content) == pass->held)
		;	/* shares already */
	else if (zm_object_equals(pass->store, pass->stream,
				  zm_content_object(content), pass->held_bytes,
				  pass->held->object.size))
		slot_join(pass, slot, pass->held, &old);
	else
		outcome = DIFFERS;
	zm_slot_unlock(slot);
	if (zm_state_has_object(old.state))
		count_dropped(pass, old);
	return outcome;
}

/*
 * The leader vanished while group[at] was compared with it: that one leads now,
 * and is compared with those that were found to differ from the old leader and
 * with those still to come.
 */
static void lead_anew(u64 *group, u64 kept, u64 at, u64 *count)
{
	u64 rest = *count - at - 1;

	group[0] = group[at];
	memmove(group + kept, group + at + 1, rest * sizeof(*group));
	*count = kept + rest;
}

/*
 * Melds what is equal to group[0]; what differs moves up behind it. *count: in
 * and out, how many there are, the leader among them. -ENOMEM: not all of it
 * was done.
 */
static int meld_leader(struct zm_pass *pass, u64 *group, u64 *count)
{
	u32 fingerprint = suspect_fingerprint(group[0]);
	u64 kept = 1, i;
	enum outcome outcome;

	for (i = 1; i < *count; i++) {
		/* Shares are made under locks, where memory cannot be had. */
		if (!pass->stream->spare) {
			pass->stream->spare = zm_share_create();
			if (!pass->stream->spare)
				return -ENOMEM;
		}
		if (pass->held)
			outcome = meld_next(pass, suspect_slot(group[i]),
					    fingerprint);
		else
			outcome = meld_first(pass, suspect_slot(group[0]),
					     suspect_slot(group[i]),
					     fingerprint);
		switch (outcome) {
		case MELDED:
			break;
		case DIFFERS:
			pass->result->collisions++;
			group[kept++] = group[i];
			break;
		case GONE:
			pass->result->raced++;
			break;
		case LEADER_GONE:
			pass->result->raced++;
			lead_anew(group, kept, i, count);
			kept = 1;
			i = 0;
			break;
		}
	}
	*count = kept;
	return 0;
}

/*
 * Melds a group of suspects with one fingerprint. One page of each content
 * stays at the group's front, in case more of its kind are to come; returns
 * how many, or -errno.
 */
static s64 meld_group(struct zm_pass *pass, u64 *group, u64 count)
{
	u64 leaders = 0, rest;
	int err;

	pass->result->candidates += count;
	while (count > leaders) {
		rest = count - leaders;
		err = meld_leader(pass, group + leaders, &rest);
		pass_let_go(pass);
		if (err)
			return err;
		count = leaders + rest;
		leaders++;
	}
	return leaders;
}

/*
 * The suspects' slots and objects lie anywhere in memory, so each is asked for
 * some suspects before its turn: the slot first, then what the slot names.
 */
enum { AHEAD_SLOT = 16, AHEAD_HANDLE = 10, AHEAD_BYTES = 4 };

/* Whether a neighbour has the same fingerprint: the others are not looked at. */
static bool has_company(const struct zm_pass *pass, u64 i)
{
	u32 fingerprint = suspect_fingerprint(pass->suspects[i]);

	return (i && suspect_fingerprint(pass->suspects[i - 1]) ==
		fingerprint) ||
	       (i + 1 < pass->suspect_count &&
		suspect_fingerprint(pass->suspects[i + 1]) == fingerprint);
}

static void prefetch_handle(struct zm_pass *pass, u64 suspect)
{
	struct zm_slot *slot = &pass->store->slots[suspect_slot(suspect)];

	/* Only an address to ask for; what it is does not matter. */
	zm_port_pool_prefetch(pass->store->pool, (struct zm_handle){
		zm_load64(&slot->value) }, false);
}

static void prefetch_bytes(struct zm_pass *pass, u64 suspect)
{
	struct zm_slot *slot = &pass->store->slots[suspect_slot(suspect)];
	struct zm_content content;

	if (!zm_slot_trylock(slot))
		return;
	content = zm_slot_content(slot);
	if (zm_state_has_object(content.state))
		zm_port_pool_prefetch(pass->store->pool,
				      zm_content_object(content).handle, true);
	zm_slot_unlock(slot);
}

static void prefetch_ahead(struct zm_pass *pass, u64 from, u64 to)
{
	u64 *suspects = pass->suspects, count = pass->suspect_count, i;

	for (i = from + AHEAD_SLOT; i < to + AHEAD_SLOT && i < count; i++)
		if (has_company(pass, i))
			zm_prefetch(&pass->store->slots
				    [suspect_slot(suspects[i])]);
	for (i = from + AHEAD_HANDLE; i < to + AHEAD_HANDLE && i < count; i++)
		if (has_company(pass, i))
			prefetch_handle(pass, suspects[i]);
	for (i = from + AHEAD_BYTES; i < to + AHEAD_BYTES && i < count; i++)
		if (has_company(pass, i))
			prefetch_bytes(pass, suspects[i]);
}

/* Sorted suspects: melds each group. -EINTR: asked to stop. */
static int meld_suspects(struct zm_pass *pass)
{
	u64 *suspects = pass->suspects;
	u64 count = pass->suspect_count;
	u64 i, next, turns = 0;
	s64 leaders;

	for (i = 0; i < count; i = next) {
		u32 fingerprint = suspect_fingerprint(suspects[i]);

		for (next = i + 1; next < count &&
		     suspect_fingerprint(suspects[next]) == fingerprint; next++)
			;
		prefetch_ahead(pass, i, next);
		if (next == i + 1)
			continue;
		leaders = meld_group(pass, suspects + i, next - i);
		if (leaders < 0)
			return (int)leaders;
		if (++turns % 64 == 0) {
			zm_port_yield();
			if (pass_should_stop(pass)) {
				pass->store->pass_resume_at = fingerprint;
				return -EINTR;
			}
		}
	}
	return 0;
}

/* -- Collect --------------------------------------------------------------- */

/*
 * Room for more suspects: drops the upper half by fingerprint and lowers the
 * round's end; or, where one fingerprint fills the half, melds that group and
 * keeps one page of each content.
 */
static int suspects_make_room(struct zm_pass *pass, u64 *end)
{
	u64 *suspects = pass->suspects;
	u64 middle = pass->suspect_count / 2, last;
	u32 fingerprint;
	s64 leaders;

	zm_sort64(suspects, pass->suspect_count);
	fingerprint = suspect_fingerprint(suspects[middle]);
	while (middle &&
	       suspect_fingerprint(suspects[middle - 1]) == fingerprint)
		middle--;
	if (middle) {
		*end = fingerprint;
		pass->suspect_count = middle;
		return 0;
	}
	for (last = 0; last < pass->suspect_count &&
	     suspect_fingerprint(suspects[last]) == fingerprint; last++)
		;
	leaders = meld_group(pass, suspects, last);
	if (leaders < 0)
		return (int)leaders;
	*end = (u64)fingerprint + 1;
	pass->suspect_count = leaders;
	return 0;
}

/* The suspects of one turn, with fingerprints from `from` to below *end. */
static int collect_turn(struct zm_pass *pass, u64 start, u64 stop, u64 from,
			u64 *end)
{
	const struct zm_slot *slots = pass->store->slots;
	struct cells cells = pass_cells(pass);
	u32 fingerprint;
	u64 index;
	int err;

	for (index = start; index < stop; index++) {
		if (!slot_counts(&slots[index], &fingerprint) ||
		    !cell_repeats(cells, fingerprint) || fingerprint < from ||
		    fingerprint >= *end)
			continue;
		if (pass->suspect_count == pass->suspect_max) {
			err = suspects_make_room(pass, end);
			if (err)
				return err;
			if (fingerprint >= *end)
				continue;
		}
		pass->suspects[pass->suspect_count++] =
			suspect_make(fingerprint, index);
	}
	return 0;
}

/*
 * One round: the suspects with fingerprints from `from`, as many as fit.
 * *end: in and out, where the range ends.
 */
static int pass_collect(struct zm_pass *pass, u64 from, u64 *end)
{
	u64 start, stop;
	int err;

	pass->suspect_count = 0;
	for (start = 0; start < pass->store->slot_count; start = stop) {
		zm_port_yield();
		if (pass_should_stop(pass)) {
			pass->store->pass_resume_at = (u32)from;
			return -EINTR;
		}
		stop = turn_end(pass->store, start);
		err = collect_turn(pass, start, stop, from, end);
		if (err)
			return err;
	}
	zm_sort64(pass->suspects, pass->suspect_count);
	return 0;
}

static int pass_rounds(struct zm_pass *pass, u64 from)
{
	u64 end, started;
	int err;

	while (from < 1ull << 32) {
		started = zm_port_time_ns();
		end = 1ull << 32;
		pass->result->rounds++;
		err = pass_collect(pass, from, &end);
		pass->result->time_find_ns += zm_port_time_ns() - started;
		if (err)
			return err;
		started = zm_port_time_ns();
		err = meld_suspects(pass);
		pass->result->time_meld_ns += zm_port_time_ns() - started;
		if (err)
			return err;
		from = end;
	}
	pass->store->pass_resume_at = 0;
	return 0;
}

/* -- The whole ------------------------------------------------------------- */

static int pass_borrow(struct zm_pass *pass, u64 memory_max)
{
	u64 half = memory_max / 2;

	pass->cell_bytes = half / sizeof(u64) * sizeof(u64);
	pass->cell_count = pass->cell_bytes * 4;
	/* A fingerprint times the cells must stay within 64 bits. */
	if (pass->cell_count >= 1ull << 32) {
		pass->cell_count = (1ull << 32) - CELLS_A_WORD;
		pass->cell_bytes = pass->cell_count / 4;
	}
	pass->suspect_bytes = half / sizeof(u64) * sizeof(u64);
	pass->suspect_max = pass->suspect_bytes / sizeof(u64);
	pass->cells = zm_port_table_alloc(pass->cell_bytes);
	pass->suspects = zm_port_table_alloc(pass->suspect_bytes);
	pass->held_bytes = zm_port_table_alloc(ZM_PAGE_SIZE);
	zm_max64(&pass->result->memory_borrowed,
		 pass->cell_bytes + pass->suspect_bytes + ZM_PAGE_SIZE);
	return pass->cells && pass->suspects && pass->held_bytes ? 0 : -ENOMEM;
}

static void pass_give_back(struct zm_pass *pass)
{
	zm_port_table_free(pass->cells, pass->cell_bytes);
	zm_port_table_free(pass->suspects, pass->suspect_bytes);
	zm_port_table_free(pass->held_bytes, ZM_PAGE_SIZE);
}

static bool worth_it(const struct zm_meld_options *options,
		     const struct zm_meld_result *result)
{
	if (!result->duplicates_sampled)
		return !options->threshold_permille &&
		       result->pages_sampled < result->pages_stored;
	return result->duplicates_sampled * 1000 >=
	       options->threshold_permille * result->pages_sampled;
}

static int pass_run(struct zm_pass *pass, const struct zm_meld_options *options)
{
	struct zm_store *store = pass->store;
	struct zm_meld_result *result = pass->result;
	u64 memory_max = options->memory_max, started;
	int err;

	started = zm_port_time_ns();
	err = pass_sample(pass);
	result->time_sample_ns = zm_port_time_ns() - started;
	if (err)
		return err;
	if (options->estimate_only)
		return 0;
	if (!worth_it(options, result)) {
		result->below_threshold = true;
		return 0;
	}
	if (!memory_max)
		memory_max = 8 * result->pages_stored;
	if (memory_max < MEMORY_MIN)
		memory_max = MEMORY_MIN;
	err = pass_borrow(pass, memory_max);
	if (!err) {
		started = zm_port_time_ns();
		pass_find(pass);
		result->time_find_ns = zm_port_time_ns() - started;
		zm_count(&store->counters.passes);
		pass->stream = zm_port_stream_get(store->streams);
		err = pass_rounds(pass, options->resume ?
					store->pass_resume_at : 0);
		zm_port_stream_put(store->streams, pass->stream);
	}
	pass_give_back(pass);
	if (err == -EINTR) {
		result->stopped = true;
		return 0;
	}
	return err;
}

int zm_meld_run(struct zm_store *store, const struct zm_meld_options *options,
		struct zm_meld_result *result)
{
	struct zm_pass pass = {
		.store = store,
		.result = result,
		.time_ns_max = options->time_ns_max,
	};
	int err;

	*result = (struct zm_meld_result){ 0 };
	if (!zm_port_mutex_trylock(store->pass_mutex))
		return -EBUSY;
	pass.started_ns = zm_port_time_ns();
	zm_set32(&store->pass_stop, 0);
	err = pass_run(&pass, options);
	zm_port_mutex_unlock(store->pass_mutex);
	return err;
}

void zm_meld_stop(struct zm_store *store)
{
	zm_set32(&store->pass_stop, 1);
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The pass's first step: what share of the pages repeats, estimated from some
 * of their fingerprints. How they are chosen, and why, is said in pass.c.
 */
#include "pass.h"

#define SAMPLE_MIN	512
#define SAMPLE_MAX	4096
#define PICKS		512

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
static int sample_count(struct zm_pass *pass, u64 *sample, u64 count)
{
	struct zm_meld_result *result = pass->result;
	u64 duplicates;

	if (!zm_sort64(sample, count, &pass->stop))
		return -EINTR;
	duplicates = sample_duplicates(sample, count);
	if (result->pages_sampled && duplicates * result->pages_sampled <=
				     result->duplicates_sampled * count)
		return 0;
	result->pages_sampled = count;
	result->duplicates_sampled = duplicates;
	return 0;
}

int zm_pass_sample(struct zm_pass *pass)
{
	struct zm_store *store = pass->store;
	u32 shift = sample_shift(zm_counter_read(&store->counters->pages_stored));
	u64 bytes = SAMPLE_MAX * sizeof(u64);
	u64 *sample = zm_port_table_alloc(bytes);
	u64 start, end, count = 0;
	int err = 0;

	if (!sample)
		return -ENOMEM;
	pass->result->memory_borrowed = bytes;
	for (start = 0; start < store->slot_count && !err; start = end) {
		end = zm_batch_end(store, start);
		count = sample_turn(pass, start, end, shift, sample, count);
		err = zm_pass_pause(pass);
	}
	if (!err)
		err = sample_count(pass, sample, count);
	if (!err)
		err = sample_count(pass, sample, sample_picks(pass, sample));
	zm_port_table_free(sample, bytes);
	return err;
}

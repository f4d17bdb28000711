// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The index of fingerprints: of any number of slots up to a bound, with any entries
 * that were put in, no access is outside of the table or of the slots.
 */
#include "proof.h"

#include "../../core/index.c"

#define SLOTS	12u

static u32 entries[(SLOTS + SLOTS / 4 + ZM_INDEX_WAYS - 1) / ZM_INDEX_WAYS *
		   ZM_INDEX_WAYS];
static struct zm_slot slots[SLOTS];

static struct zm_index any_index(u64 count)
{
	struct zm_index index = {
		.entries = entries,
		.buckets = bucket_count(count),
		.slot_bits = slot_bits_for(count),
	};
	u32 k;

	any_bytes(entries);
	any_bytes(slots);
	prove(index.buckets * ZM_INDEX_WAYS <= sizeof(entries) / sizeof(u32));
	/* An entry is none, or a slot's number and one. */
	for (k = 0; k < index.buckets * ZM_INDEX_WAYS; k++)
		assume(!entries[k] || ((entries[k] & slot_mask(&index)) &&
				       (entries[k] & slot_mask(&index)) <= count));
	return index;
}

PROOF(index_keeps_to_its_table, 32, 32, 34)
{
	u64 count = nondet_u64(), slot = nondet_u64(), found[ZM_INDEX_WAYS];
	u32 fingerprint = nondet_u32(), k, looked;
	struct zm_index index;

	assume(count >= 1 && count <= SLOTS && slot < count);
	index = any_index(count);
	zm_index_insert(&index, slots, fingerprint, slot);
	looked = zm_index_lookup(&index, fingerprint, found);
	prove(looked <= ZM_INDEX_WAYS);
	for (k = 0; k < looked; k++)
		prove(found[k] < count);
}

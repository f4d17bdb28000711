// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The index: from a fingerprint to slots that may hold such a page.
 *
 * A table of buckets, eight entries of 32 bits each. The high bits of the
 * fingerprint choose the bucket. An entry is a slot's number plus one, and in
 * the bits that the number leaves free, low bits of the fingerprint as a tag,
 * so that few slots are looked at in vain.
 *
 * Invariants:
 *   - an entry is a hint: who finds a slot here looks at it under its lock;
 *   - entries are read and written without a lock, each as one word;
 *   - nothing is removed: what has become untrue is overwritten in time, and
 *     when a bucket is full an entry that is no longer true goes first.
 *
 * What does not fit is forgotten: inline melding then misses that twin, and the
 * next pass, which needs no index, finds it.
 *
 * Its place in the life of a page: "melded" in store.h.
 */
#include "store.h"

struct zm_index {
	u32 *entries;
	u64 buckets;
	u64 bytes;
	u32 slot_bits;
};

/* A quarter more entries than slots keeps most buckets from overflowing. */
static u64 bucket_count(u64 slots)
{
	u64 entries = slots + slots / 4;

	return (entries + ZM_INDEX_WAYS - 1) / ZM_INDEX_WAYS;
}

/* Where there are more slots than an entry can number, the rest stay out. */
static u32 slot_bits_for(u64 slots)
{
	u32 bits = 1;

	while (bits < 32 && slots >> bits)
		bits++;
	return bits;
}

struct zm_index *zm_index_create(u64 slots)
{
	struct zm_index *index = zm_port_small_alloc(sizeof(*index), true);

	if (!index)
		return NULL;
	index->buckets = bucket_count(slots);
	index->bytes = index->buckets * ZM_INDEX_WAYS * sizeof(u32);
	index->slot_bits = slot_bits_for(slots);
	index->entries = zm_port_table_alloc(index->bytes);
	if (!index->entries) {
		zm_port_small_free(index, sizeof(*index));
		return NULL;
	}
	return index;
}

void zm_index_destroy(struct zm_index *index)
{
	if (!index)
		return;
	zm_port_table_free(index->entries, index->bytes);
	zm_port_small_free(index, sizeof(*index));
}

u64 zm_index_bytes(const struct zm_index *index)
{
	return index ? sizeof(*index) + index->bytes : 0;
}

static u32 *bucket_of(const struct zm_index *index, u32 fingerprint)
{
	return index->entries +
	       (fingerprint * index->buckets >> 32) * ZM_INDEX_WAYS;
}

static u32 slot_mask(const struct zm_index *index)
{
	return (u32)((1ull << index->slot_bits) - 1);
}

static u32 entry_make(const struct zm_index *index, u32 fingerprint, u64 slot)
{
	u32 tag = (u32)((u64)fingerprint << index->slot_bits);

	return tag | (u32)(slot + 1);
}

/* The slots to look at, at most ZM_INDEX_WAYS. */
u32 zm_index_lookup(const struct zm_index *index, u32 fingerprint,
		    u64 found[ZM_INDEX_WAYS])
{
	const u32 *bucket = bucket_of(index, fingerprint);
	u32 mask = slot_mask(index);
	u32 tag = entry_make(index, fingerprint, 0) & ~mask;
	u32 count = 0;
	u32 way, entry;

	for (way = 0; way < ZM_INDEX_WAYS; way++) {
		entry = zm_load32(&bucket[way]);
		if (entry & mask && (entry & ~mask) == tag)
			found[count++] = (entry & mask) - 1;
	}
	return count;
}

/* Whether the entry's slot still has a fingerprint that belongs here. */
static bool entry_is_true(const struct zm_index *index,
			  const struct zm_slot *slots, const u32 *bucket,
			  u32 entry)
{
	u64 slot = (entry & slot_mask(index)) - 1;
	u32 fingerprint = zm_load32(&slots[slot].fingerprint);

	return bucket_of(index, fingerprint) == bucket &&
	       entry_make(index, fingerprint, slot) == entry;
}

void zm_index_insert(struct zm_index *index, const struct zm_slot *slots,
		     u32 fingerprint, u64 slot)
{
	u32 *bucket = bucket_of(index, fingerprint);
	u32 entry, old, way, victim;

	if (slot >= slot_mask(index))
		return;
	entry = entry_make(index, fingerprint, slot);
	for (way = 0; way < ZM_INDEX_WAYS; way++) {
		old = zm_load32(&bucket[way]);
		if (old == entry)
			return;
		if (!old) {
			zm_set32(&bucket[way], entry);
			return;
		}
	}
	/* Full: of two, the one that is not true any more, or the second. */
	victim = slot % ZM_INDEX_WAYS;
	if (entry_is_true(index, slots, bucket, zm_load32(&bucket[victim])))
		victim = (victim + 1) % ZM_INDEX_WAYS;
	zm_set32(&bucket[victim], entry);
}

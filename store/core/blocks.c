// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The blocks of the backing device: which are taken.
 *
 * A bit for each block. Who wants one looks without the lock for a word with a
 * free bit, from where the last one was found, and takes the bit under the lock
 * if it is still free. Freeing is a bit cleared under the lock, from any
 * context.
 *
 * Invariants:
 *   - `used` is the number of bits set;
 *   - attach and detach run while nobody reserves; blocks are given back at any
 *     time, but only those that were reserved.
 *
 * Locking: the blocks' lock comes after all others and is held for a few
 * instructions.
 *
 * Its place in the life of a page: "sent away" in store.h.
 */
#include "store.h"

#define BITS_A_WORD	64
#define WORDS_PER_BATCH	4096
#define TRIES_MAX	64

static u64 words_for(u64 blocks)
{
	return (blocks + BITS_A_WORD - 1) / BITS_A_WORD;
}

u64 zm_blocks_bytes(const struct zm_store *store)
{
	return words_for(zm_load64(&store->blocks.count)) * sizeof(u64);
}

int zm_backing_attach(struct zm_store *store, u64 blocks)
{
	u64 *taken, bytes;

	if (!blocks || blocks > ZM_BLOCKS_MAX)
		return -EINVAL;
	if (store->blocks.taken)
		return -EBUSY;
	bytes = words_for(blocks) * sizeof(u64);
	taken = zm_port_table_alloc(bytes);
	if (!taken)
		return -ENOMEM;
	/* The last word's bits beyond the last block are never free. */
	if (blocks % BITS_A_WORD)
		taken[blocks / BITS_A_WORD] = ~0ull << blocks % BITS_A_WORD;
	store->blocks.taken = taken;
	store->blocks.next = 0;
	zm_set64(&store->blocks.count, blocks);
	return 0;
}

int zm_backing_detach(struct zm_store *store)
{
	u64 bytes = zm_blocks_bytes(store);

	if (zm_load64(&store->blocks.used))
		return -EBUSY;
	zm_set64(&store->blocks.count, 0);
	zm_port_table_free(store->blocks.taken, bytes);
	store->blocks.taken = NULL;
	return 0;
}

/* The number of the lowest bit that is clear. pre: there is one. */
static u32 free_bit(u64 word)
{
	u32 bit = 0;

	while (word >> bit & 1)
		bit++;
	return bit;
}

/* Takes a block of this word, if one is free. */
static bool word_take(struct zm_blocks *blocks, u64 word, u64 *block)
{
	u64 bits;
	bool found;

	zm_bit_lock(&blocks->lock, ZM_LOCK_BLOCKS);
	bits = zm_load64(&blocks->taken[word]);
	found = ~bits;
	if (found) {
		*block = word * BITS_A_WORD + free_bit(bits);
		zm_set64(&blocks->taken[word],
			 bits | 1ull << *block % BITS_A_WORD);
		zm_add64(&blocks->used, 1);
		zm_set64(&blocks->next, word);
	}
	zm_bit_unlock(&blocks->lock, 0, ZM_LOCK_BLOCKS);
	return found;
}

/* A word with a free bit, from `from` on and around, or `words`: there is none. */
static u64 word_find(const struct zm_blocks *blocks, u64 from, u64 words)
{
	u64 i, word = from;

	for (i = 0; i < words; i++) {
		if (~zm_load64(&blocks->taken[word]))
			return word;
		if (++word == words)
			word = 0;
		if (i % WORDS_PER_BATCH == WORDS_PER_BATCH - 1)
			zm_port_yield();
	}
	return words;
}

/* -ENOSPC: none is free, or others were faster again and again. May sleep. */
int zm_block_reserve(struct zm_store *store, u64 *block)
{
	struct zm_blocks *blocks = &store->blocks;
	u64 count = zm_load64(&blocks->count), word;
	u32 tries;

	for (tries = 0; tries < TRIES_MAX; tries++) {
		if (zm_load64(&blocks->used) >= count)
			return -ENOSPC;
		word = word_find(blocks, zm_load64(&blocks->next),
				 words_for(count));
		if (word == words_for(count))
			return -ENOSPC;
		if (word_take(blocks, word, block))
			return 0;
	}
	return -ENOSPC;
}

static bool block_is_taken(const struct zm_blocks *blocks, u64 block)
{
	return block < zm_load64(&blocks->count) &&
	       zm_load64(&blocks->taken[block / BITS_A_WORD]) >>
	       block % BITS_A_WORD & 1;
}

bool zm_block_is_taken(const struct zm_store *store, u64 block)
{
	return block_is_taken(&store->blocks, block);
}

/* Atomic. */
void zm_block_free(struct zm_store *store, u64 block)
{
	struct zm_blocks *blocks = &store->blocks;
	u64 *word;

	zm_bit_lock(&blocks->lock, ZM_LOCK_BLOCKS);
	if (block_is_taken(blocks, block)) {
		word = &blocks->taken[block / BITS_A_WORD];
		zm_set64(word, zm_load64(word) & ~(1ull << block % BITS_A_WORD));
		zm_add64(&blocks->used, (u64)-1);
	} else {
		zm_port_warn("a block is freed that is not taken");
	}
	zm_bit_unlock(&blocks->lock, 0, ZM_LOCK_BLOCKS);
}

/* For the check: the bits that are set. */
u64 zm_blocks_count_taken(const struct zm_store *store)
{
	const struct zm_blocks *blocks = &store->blocks;
	u64 words = words_for(zm_load64(&blocks->count)), taken = 0, word, i;

	for (i = 0; i < words; i++) {
		if (i % WORDS_PER_BATCH == 0)
			zm_port_yield();
		for (word = zm_load64(&blocks->taken[i]); word;
		     word &= word - 1)
			taken++;
	}
	/* Those beyond the last block are set for good. */
	return taken - (words * BITS_A_WORD - zm_load64(&blocks->count));
}

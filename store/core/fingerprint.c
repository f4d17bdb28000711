// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Fingerprints: a keyed hash of a raw page, and the test for same-filled pages.
 *
 * The hash is NH (J. Black, S. Halevi, H. Krawczyk, T. Krovetz, P. Rogaway,
 * "UMAC: Fast and Secure Message Authentication", CRYPTO '99) on 64-bit words,
 *
 *	NH(m) = sum over i of (m[2i] + k[2i]) * (m[2i+1] + k[2i+1])  mod 2^128
 *
 * folded to 32 bits by a multilinear hash with a key of its own. For any two
 * different pages, chosen by somebody who does not know the key, NH collides
 * with probability at most 2^-64 and the fold with about 2^-31. It takes one
 * multiplication for 16 bytes and no vector unit, which a kernel cannot use
 * freely; and it is the same on every processor.
 *
 * The key is as long as a page; SipHash-2-4 (J.-P. Aumasson, D. J. Bernstein)
 * in counter mode expands it from 16 bytes, so a test can repeat a run.
 *
 * A fingerprint is only ever a hint (invariant 2) and a check against flipped
 * bits.
 */
#include "store.h"

#define KEY_WORDS	(ZM_PAGE_SIZE / sizeof(u64))
/* The high ones: they choose the pass's cell, the index's bucket, the sample. */
#define KEPT_BITS	(~0u << (32 - ZM_FINGERPRINT_BITS))

_Static_assert(ZM_FINGERPRINT_BITS >= 1 && ZM_FINGERPRINT_BITS <= 32,
	       "a fingerprint has bits, and fits into a slot");

struct zm_fingerprint_key {
	u64 words[KEY_WORDS];
	u64 fold[3];		/* two odd multipliers and an offset */
};

struct siphash {
	u64 v[4];
};

static inline u64 rotate(u64 x, u32 by)
{
	return x << by | x >> (64 - by);
}

static void siphash_round(struct siphash *s)
{
	u64 *v = s->v;

	v[0] += v[1];
	v[2] += v[3];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] = rotate(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[2] = rotate(v[2], 32);
}

/* SipHash-2-4 of one 8-byte message, the counter. */
static u64 siphash_counter(const u64 key[2], u64 counter)
{
	struct siphash s = { {
		key[0] ^ 0x736f6d6570736575ull,
		key[1] ^ 0x646f72616e646f6dull,
		key[0] ^ 0x6c7967656e657261ull,
		key[1] ^ 0x7465646279746573ull,
	} };
	u64 last = (u64)8 << 56;
	u32 i;

	s.v[3] ^= counter;
	siphash_round(&s);
	siphash_round(&s);
	s.v[0] ^= counter;
	s.v[3] ^= last;
	siphash_round(&s);
	siphash_round(&s);
	s.v[0] ^= last;
	s.v[2] ^= 0xff;
	for (i = 0; i < 4; i++)
		siphash_round(&s);
	return s.v[0] ^ s.v[1] ^ s.v[2] ^ s.v[3];
}

u64 zm_fingerprint_key_bytes(void)
{
	return sizeof(struct zm_fingerprint_key);
}

/* key: ZM_KEY_SIZE bytes, or NULL for a random one. */
struct zm_fingerprint_key *zm_fingerprint_key_create(const u8 *key)
{
	struct zm_fingerprint_key *expanded;
	u64 seed[2];
	u64 i;

	expanded = zm_port_table_alloc(sizeof(*expanded));
	if (!expanded)
		return NULL;
	if (key)
		memcpy(seed, key, sizeof(seed));
	else
		zm_port_random(seed, sizeof(seed));
	for (i = 0; i < KEY_WORDS; i++)
		expanded->words[i] = siphash_counter(seed, i);
	expanded->fold[0] = siphash_counter(seed, KEY_WORDS) | 1;
	expanded->fold[1] = siphash_counter(seed, KEY_WORDS + 1) | 1;
	expanded->fold[2] = siphash_counter(seed, KEY_WORDS + 2);
	return expanded;
}

void zm_fingerprint_key_destroy(struct zm_fingerprint_key *key)
{
	zm_port_table_free(key, sizeof(*key));
}

static inline u64 load_word(const u8 *bytes, u64 word)
{
	return zm_get64(bytes + word * sizeof(u64));
}

u32 zm_fingerprint(const struct zm_fingerprint_key *key, const void *page)
{
	const u8 *bytes = page;
	const u64 *k = key->words;
	/* Two sums, so that one's carries do not hold the other back. */
	u64 low[2] = { 0, 0 }, high[2] = { 0, 0 };
	u64 i, sum;

	for (i = 0; i < KEY_WORDS; i += 8) {
		zm_mul128_add(&low[0], &high[0],
			      load_word(bytes, i) + k[i],
			      load_word(bytes, i + 1) + k[i + 1]);
		zm_mul128_add(&low[1], &high[1],
			      load_word(bytes, i + 2) + k[i + 2],
			      load_word(bytes, i + 3) + k[i + 3]);
		zm_mul128_add(&low[0], &high[0],
			      load_word(bytes, i + 4) + k[i + 4],
			      load_word(bytes, i + 5) + k[i + 5]);
		zm_mul128_add(&low[1], &high[1],
			      load_word(bytes, i + 6) + k[i + 6],
			      load_word(bytes, i + 7) + k[i + 7]);
	}
	/* The sum mod 2^128, then the multilinear fold of its halves. */
	sum = low[0] + low[1];
	high[0] += high[1] + (sum < low[0]);
	return (u32)((sum * key->fold[0] + high[0] * key->fold[1] +
		      key->fold[2]) >> 32) & KEPT_BITS;
}

bool zm_page_fill(const void *page, u64 *word)
{
	const u8 *bytes = page;
	u64 first = load_word(bytes, 0);
	u64 i;

	/* Most pages differ at an end; look there before walking. */
	if (load_word(bytes, KEY_WORDS - 1) != first)
		return false;
	for (i = 1; i < KEY_WORDS - 1; i++)
		if (load_word(bytes, i) != first)
			return false;
	*word = first;
	return true;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Fingerprints: a keyed hash of a raw page, and the test for same-filled pages.
 *
 * The page goes through NH (J. Black, S. Halevi, H. Krawczyk, T. Krovetz,
 * P. Rogaway, "UMAC: Fast and Secure Message Authentication", CRYPTO '99) on
 * 64-bit words,
 *
 *	NH(m) = sum over i of (m[2i] + k[2i]) * (m[2i+1] + k[2i+1])  mod 2^128
 *
 * and all 128 bits of that through SipHash-2-4 (J.-P. Aumasson, D. J. Bernstein)
 * under a key of its own, of which 32 bits are kept. NH takes one multiplication
 * for 16 bytes and no vector unit, which a kernel cannot use freely; and it is
 * the same on every processor.
 *
 * Why both. NH by itself is a universal hash: two pages chosen without any
 * knowledge of its key collide with probability 2^-64, but its sums are linear,
 * so one collision that somebody sees tells of the key, and is carried to other
 * pages at will. SipHash is a pseudo-random function, which is what the kernel
 * puts in front of its tables where others choose the keys: as long as no two
 * pages have the same NH, what is seen of fingerprints, their collisions
 * included, is no more than chance would show, and tells nothing of NH's key. So
 * choosing pages by what was seen is no better than choosing them beforehand,
 * and of q pages two have the same NH with probability below q^2 / 2^65: 2^-5
 * for 4 TiB of different pages. Then it is still hidden among 2^27 collisions of
 * 32 bits. To have n pages of a given fingerprint takes n * 2^32 writes, and more
 * than 2^32 to have as many of any as a pass compares with each other.
 * SipHash-1-3 would be enough for a table in memory; 2-4 costs some 20 cycles
 * more of a few thousand that a write takes, and devices live for months.
 *
 * The keys are expanded from 16 bytes by SipHash-2-4 in counter mode, so a test
 * can repeat a run.
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
	u64 finish[2];		/* SipHash's */
};

struct siphash {
	u64 v[4];
};

static inline u64 rotate(u64 x, u32 by)
{
	return x << by | x >> (64 - by);
}

static inline void siphash_round(struct siphash *s)
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

static inline void siphash_word(struct siphash *s, u64 word)
{
	s->v[3] ^= word;
	siphash_round(s);
	siphash_round(s);
	s->v[0] ^= word;
}

/* SipHash-2-4 of one or two words. */
static inline u64 siphash(const u64 key[2], const u64 *words, u32 count)
{
	struct siphash s = { {
		key[0] ^ 0x736f6d6570736575ull,
		key[1] ^ 0x646f72616e646f6dull,
		key[0] ^ 0x6c7967656e657261ull,
		key[1] ^ 0x7465646279746573ull,
	} };
	u32 i;

	for (i = 0; i < count; i++)
		siphash_word(&s, words[i]);
	/* The last word is the number of bytes, in its highest byte. */
	siphash_word(&s, (u64)count * sizeof(u64) << 56);
	s.v[2] ^= 0xff;
	for (i = 0; i < 4; i++)
		siphash_round(&s);
	return s.v[0] ^ s.v[1] ^ s.v[2] ^ s.v[3];
}

static u64 siphash_counter(const u64 key[2], u64 counter)
{
	return siphash(key, &counter, 1);
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
	for (i = 0; i < 2; i++)
		expanded->finish[i] = siphash_counter(seed, KEY_WORDS + i);
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
	u64 sum[2];
	u64 i;

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
	sum[0] = low[0] + low[1];
	sum[1] = high[0] + high[1] + (sum[0] < low[0]);
	return (u32)(siphash(key->finish, sum, 2) >> 32) & KEPT_BITS;
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

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Fingerprints: a second, plain implementation agrees with the store's.
 *
 *	fingerprint [pages]
 *
 * The plain one is SipHash-2-4 on bytes, tried on its authors' own vectors, and
 * NH by the formula. And pages of one word are told from those that differ in any.
 */
#include "harness.h"

#define WORDS (ZM_PAGE_SIZE / 8)

static u64 rotl(u64 x, u32 by)
{
	return x << by | x >> (64 - by);
}

static void sip_rounds(u64 v[4], u32 count)
{
	while (count--) {
		v[0] += v[1];
		v[1] = rotl(v[1], 13) ^ v[0];
		v[0] = rotl(v[0], 32);
		v[2] += v[3];
		v[3] = rotl(v[3], 16) ^ v[2];
		v[0] += v[3];
		v[3] = rotl(v[3], 21) ^ v[0];
		v[2] += v[1];
		v[1] = rotl(v[1], 17) ^ v[2];
		v[2] = rotl(v[2], 32);
	}
}

static u64 bytes_word(const u8 *bytes, u32 count)
{
	u64 word = 0;

	while (count--)
		word = word << 8 | bytes[count];
	return word;
}

static u64 sip(const u8 key[16], const u8 *bytes, u32 size)
{
	u64 k[2] = { bytes_word(key, 8), bytes_word(key + 8, 8) }, word;
	u64 v[4] = { k[0] ^ 0x736f6d6570736575, k[1] ^ 0x646f72616e646f6d,
		     k[0] ^ 0x6c7967656e657261, k[1] ^ 0x7465646279746573 };
	u32 at;

	for (at = 0; at <= size; at += 8) {
		word = at + 8 <= size ? bytes_word(bytes + at, 8) :
		       bytes_word(bytes + at, size - at) | (u64)size << 56;
		v[3] ^= word;
		sip_rounds(v, 2);
		v[0] ^= word;
	}
	v[2] ^= 0xff;
	sip_rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* From the appendix and the code of its authors: key and bytes are 0, 1, 2... */
static void try_vectors(void)
{
	static const struct {
		u32 size;
		u64 hash;
	} vectors[] = {
		{ 0, 0x726fdb47dd0e0e31 },
		{ 8, 0x93f5f5799a932462 },
		{ 15, 0xa129ca6149be45e5 },
		{ 16, 0x3f2acc7f57c29bdb },
	};
	u8 bytes[16];
	u32 i;

	for (i = 0; i < 16; i++)
		bytes[i] = (u8)i;
	for (i = 0; i < 4; i++)
		if (sip(bytes, bytes, vectors[i].size) != vectors[i].hash)
			DIE("SipHash of %u bytes is wrong", vectors[i].size);
}

static u64 expanded(const u8 *key, u64 counter)
{
	u8 bytes[8];
	u32 i;

	for (i = 0; i < 8; i++)
		bytes[i] = (u8)(counter >> 8 * i);
	return sip(key, bytes, 8);
}

/* sum += a * b as on paper, in digits of 32 bits: machines of 32 bits have no more. */
static void add_product(u32 *sum, u64 a, u64 b)
{
	u32 digits[2][2] = { { (u32)a, (u32)(a >> 32) }, { (u32)b, (u32)(b >> 32) } };
	u32 i, j, place;

	for (i = 0; i < 2; i++) {
		for (j = 0; j < 2; j++) {
			u64 carry = (u64)digits[0][i] * digits[1][j];

			for (place = i + j; place < 4; place++) {
				u64 digit = (u64)sum[place] + (u32)carry;

				sum[place] = (u32)digit;
				carry = (carry >> 32) + (digit >> 32);
			}
		}
	}
}

static u32 plain(const u8 *key, const u8 *page)
{
	u32 sum[4] = { 0 };
	u8 finish[16], nh[16];
	u64 i;

	for (i = 0; i < WORDS; i += 2) {
		u64 a = bytes_word(page + 8 * i, 8) + expanded(key, i);
		u64 b = bytes_word(page + 8 * i + 8, 8) + expanded(key, i + 1);

		add_product(sum, a, b);
	}
	for (i = 0; i < 16; i++) {
		finish[i] = (u8)(expanded(key, WORDS + i / 8) >> i % 8 * 8);
		nh[i] = (u8)(sum[i / 4] >> 8 * (i % 4));
	}
	return (u32)(sip(finish, nh, 16) >> 32) &
	       ~0u << (32 - ZM_FINGERPRINT_BITS);
}

static void try_second_implementation(u64 pages)
{
	struct zm_fingerprint_key *key = NULL;
	struct rng rng = { 1 };
	u8 page[ZM_PAGE_SIZE], seed[ZM_KEY_SIZE];
	u64 i, j;

	for (i = 0; i < pages; i++) {
		if (i % 16 == 0) {
			for (j = 0; j < ZM_KEY_SIZE; j++)
				seed[j] = i ? (u8)rng_next(&rng) : 0;
			zm_fingerprint_key_destroy(key);
			key = zm_fingerprint_key_create(seed);
			if (!key)
				DIE("no key");
		}
		page_make(page, i);
		if (i % 16 == 7)
			memset(page, 0xff, ZM_PAGE_SIZE);
		if (zm_fingerprint(key, page) != plain(seed, page))
			DIE("page %llu: the fingerprint is %08x and not %08x",
			    i, zm_fingerprint(key, page), plain(seed, page));
	}
	zm_fingerprint_key_destroy(key);
	printf("fingerprint: two implementations agree on %llu pages\n", pages);
}

/* A page is same-filled only where every word is; each has its turn to differ. */
static void try_same_filled(void)
{
	u64 page[WORDS], word, i;

	for (i = 0; i < WORDS; i++)
		page[i] = 0x0123456789abcdefull;
	if (!zm_page_fill(page, &word) || word != page[0])
		DIE("a page of one word is not same-filled");
	for (i = 0; i < WORDS; i++) {
		page[i] ^= 1ull << i % 64;
		if (zm_page_fill(page, &word))
			DIE("a page is same-filled though word %llu differs",
			    i);
		page[i] ^= 1ull << i % 64;
	}
}

int main(int argc, char **argv)
{
	try_vectors();
	try_same_filled();
	try_second_implementation(argc > 1 ? strtoull(argv[1], NULL, 0) : 300);
	return 0;
}

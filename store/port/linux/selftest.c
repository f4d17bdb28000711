// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What all self-tests share: numbers from a seed, and pages made of them.
 */
#include <linux/string.h>

#include "home_selftest.h"

/* SplitMix64 (G. Steele, D. Lea, C. Flood, 2014). */
u64 zm_selftest_next(struct zm_selftest_random *random)
{
	u64 z = random->state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

u32 zm_selftest_below(struct zm_selftest_random *random, u32 bound)
{
	return (u32)((zm_selftest_next(random) >> 32) * bound >> 32);
}

void zm_selftest_page(u8 *page, u64 content)
{
	static const char letters[] = "etaoin shrdlu\n0_";
	struct zm_selftest_random random = {
		content * 0x2545f4914f6cdd1dull + 1
	};
	u32 i, kind = content % ZM_SELFTEST_KINDS;
	u64 word;

	if (kind == 0) {
		word = content < 64 ? 0 : zm_selftest_next(&random);
		for (i = 0; i < ZM_PAGE_SIZE; i += sizeof(word))
			memcpy(page + i, &word, sizeof(word));
	} else if (kind == 1) {
		for (i = 0; i < ZM_PAGE_SIZE; i += sizeof(word)) {
			word = zm_selftest_next(&random);
			memcpy(page + i, &word, sizeof(word));
		}
	} else if (kind < 4) {
		memset(page, 0, ZM_PAGE_SIZE);
		for (i = 0; i < ZM_PAGE_SIZE / 4; i += 32) {
			word = 0x00007f0000000000ull |
			       zm_selftest_below(&random, 1 << 20) * 16;
			memcpy(page + i, &word, sizeof(word));
		}
	} else {
		for (i = 0; i < ZM_PAGE_SIZE; i++) {
			word = zm_selftest_next(&random);
			page[i] = letters[word & (word >> 8) & 15];
		}
		memcpy(page, &content, sizeof(content));
	}
}

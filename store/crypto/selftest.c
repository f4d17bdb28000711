// SPDX-License-Identifier: GPL-2.0-or-later
/* See selftest.h. */
#include "selftest.h"

#include "../zword/grammar.h"
#include "page.h"

#define PAGES		96	/* of each level */
#define SEED		1
#define CANARY		0xa5
#define CANARY_SIZE	64u
#define MODES_ALL	((1u << ZWORD_WORDS_64 | 1u << ZWORD_WORDS_32 | \
			  1u << ZWORD_BYTES | 1u << ZWORD_RAW))

struct trial {
	const struct zword_tables *tables;
	struct zword_context *context;
	u8 *page;
	u8 *object;	/* two pages */
	u8 *out;	/* a page, and canaries behind it */
	u32 modes;	/* bit k: mode k was met */
};

size_t zword_at_load zword_selftest_size(void)
{
	return zword_context_size() + 4 * ZM_PAGE_SIZE +
	       CANARY_SIZE;
}

static bool zword_at_load canary_is_whole(const u8 *at)
{
	u32 k;

	for (k = 0; k < CANARY_SIZE; k++)
		if (at[k] != CANARY)
			return false;
	return true;
}

/* 0 or -EINVAL as the decoder says, or -EIO: it wrote outside of its page. */
static int zword_at_load decode(struct trial *trial, u32 size)
{
	unsigned int got = ZM_PAGE_SIZE + CANARY_SIZE;
	int err;

	memset(trial->out + ZM_PAGE_SIZE, CANARY, CANARY_SIZE);
	err = zword_page_decompress(trial->tables, trial->context,
				    trial->object, size, trial->out, &got);
	if (!canary_is_whole(trial->out + ZM_PAGE_SIZE))
		return -EIO;
	return !err && got != ZM_PAGE_SIZE ? -EIO : err;
}

static bool zword_at_load page_is_right(struct trial *trial, int level,
					u32 number)
{
	const struct zword_manner manner = {
		.tables = trial->tables,
		.level = level,
		.is_checked = number % 2,
	};
	unsigned int size = 2 * ZM_PAGE_SIZE, at;
	int err;

	zword_grammar_page(SEED, number, trial->page, ZM_PAGE_SIZE);
	err = zword_page_compress(&manner, trial->context, trial->page,
				  ZM_PAGE_SIZE, trial->object, &size);
	if (err || decode(trial, size) ||
	    !zm_equal(trial->page, trial->out, ZM_PAGE_SIZE))
		return false;
	/* The first block's; before it its size, where it is not the last. */
	at = ZM_PAGE_SIZE > ZWORD_BLOCK_SIZE ? 2 : 0;
	trial->modes |= 1u << (trial->object[at] & 3);

	at = (number * 2654435761u >> 8) % size;
	trial->object[at] ^= 1u << number % 8;
	return decode(trial, size) != -EIO;
}

int zword_at_load zword_selftest(const struct zword_tables *tables,
				 void *memory)
{
	struct trial trial = { .tables = tables, .context = memory };
	u32 number;
	int level;

	trial.page = (u8 *)memory + zword_context_size();
	trial.object = trial.page + ZM_PAGE_SIZE;
	trial.out = trial.object + 2 * ZM_PAGE_SIZE;
	for (level = ZWORD_LEVEL_GLANCE; level <= ZWORD_LEVEL_ALL; level++) {
		trial.modes = 0;
		for (number = 0; number < PAGES; number++) {
			if (!page_is_right(&trial, level, number))
				return -EIO;
			cond_resched();
		}
		if (trial.modes != MODES_ALL)
			return -EIO;
	}
	return 0;
}

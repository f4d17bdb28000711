/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Any state of the parse of words between two tokens; behind parse_words.c. */
#ifndef ZM_TESTS_WORD_SCAN_H
#define ZM_TESTS_WORD_SCAN_H

static struct zword_positions positions;
static struct zword_word_encoder tables;

/*
 * What any token leaves, or the begin. Places that are remembered are words before this
 * one, or the begin of the page.
 */
static void assume_scan(const struct scan *scan, u32 width)
{
	u32 k;

	any_bytes(&positions);
	assume(scan->at < scan->end && scan->at % width == 0);
	assume(scan->back >= width && scan->back % width == 0);
	assume(scan->back <= (scan->at ? scan->at : width));
	for (k = 0; k < ZWORD_POSITIONS; k++) {
		assume(!positions.whole[k] ||
		       positions.whole[k] * width < scan->at);
		assume(!positions.high[k] ||
		       positions.high[k] * width < scan->at);
	}
}

#endif /* ZM_TESTS_WORD_SCAN_H */

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Sorting words in place: quicksort around the median of three, insertion sort
 * for short runs.
 *
 * The words are fingerprints under a secret key, or addresses; nobody can
 * arrange them badly. The smaller part is sorted first and the larger waits, so
 * the stack of waiting parts cannot outgrow the bits of a count. May sleep
 * between long runs.
 */
#include "store.h"

#define SHORT_RUN 24
#define LONG_RUN (1u << 16)
/* No memory holds 2^40 words. */
#define DEPTH_MAX 40

static void insertion_sort(u64 *words, u64 count)
{
	u64 i, j, word;

	for (i = 1; i < count; i++) {
		word = words[i];
		for (j = i; j && words[j - 1] > word; j--)
			words[j] = words[j - 1];
		words[j] = word;
	}
}

static u64 median(u64 a, u64 b, u64 c)
{
	if (a < b)
		return b < c ? b : a < c ? c : a;
	return a < c ? a : b < c ? c : b;
}

/*
 * Moves the words below the limit to the front; how many. Without a branch on
 * the words: on random ones every second guess would be wrong.
 */
static u64 sweep(u64 *words, u64 count, u64 limit)
{
	u64 low = 0, i, word;

	for (i = 0; i < count; i++) {
		word = words[i];
		words[i] = words[low];
		words[low] = word;
		low += word < limit;
	}
	return low;
}

/*
 * Splits in two non-empty parts; the words of the first are smaller than those
 * of the second. Returns count where all are equal.
 */
static u64 partition(u64 *words, u64 count)
{
	u64 pivot = median(words[0], words[count / 2], words[count - 1]);
	u64 low = sweep(words, count, pivot);

	if (!low && pivot + 1)
		low = sweep(words, count, pivot + 1);
	return low ? low : count;
}

void zm_sort64(u64 *words, u64 count)
{
	struct {
		u64 *words;
		u64 count;
	} waiting[DEPTH_MAX];
	u32 depth = 0;
	u64 split;

	for (;;) {
		while (count > SHORT_RUN) {
			if (count > LONG_RUN)
				zm_port_yield();
			split = partition(words, count);
			if (split == count)
				break;
			if (split < count - split) {
				waiting[depth].words = words + split;
				waiting[depth++].count = count - split;
				count = split;
			} else {
				waiting[depth].words = words;
				waiting[depth++].count = split;
				words += split;
				count -= split;
			}
		}
		if (count <= SHORT_RUN)
			insertion_sort(words, count);
		if (!depth)
			return;
		words = waiting[--depth].words;
		count = waiting[depth].count;
	}
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Sorting words in place: quicksort around the median of three, insertion sort
 * for short runs.
 *
 * The words are fingerprints under a secret key, or addresses; nobody can
 * arrange them badly. The smaller part is sorted first and the larger waits, so
 * the stack of waiting parts cannot outgrow the bits of a count.
 */
#include "store.h"

#define SHORT_RUN 24

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

/* Splits in two non-empty parts; the words of the first are not larger. */
static u64 partition(u64 *words, u64 count)
{
	u64 pivot = median(words[0], words[count / 2], words[count - 1]);
	u64 low = 0, high = count - 1, word;

	for (;;) {
		while (words[low] < pivot)
			low++;
		while (words[high] > pivot)
			high--;
		if (low >= high)
			return low ? low : 1;
		word = words[low];
		words[low++] = words[high];
		words[high--] = word;
	}
}

void zm_sort64(u64 *words, u64 count)
{
	struct {
		u64 *words;
		u64 count;
	} waiting[64];
	u32 depth = 0;
	u64 split;

	for (;;) {
		while (count > SHORT_RUN) {
			split = partition(words, count);
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
		insertion_sort(words, count);
		if (!depth)
			return;
		words = waiting[--depth].words;
		count = waiting[depth].count;
	}
}

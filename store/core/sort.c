// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Sorting words in place: quicksort around the median of three, insertion sort
 * for short runs.
 *
 * The words are fingerprints under a secret key, or addresses; nobody can
 * arrange them badly. The smaller part is sorted first and the larger waits, so
 * the stack of waiting parts cannot outgrow the bits of a count. May sleep
 * between long runs, where it also looks whether to stop.
 */
#include "store.h"

#define SHORT_RUN 24
/* What is done between two looks at the stop. */
#define LONG_RUN (1u << 16)
#define STOPPED ((u64)-1)
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
 * Moves the words from `from` to below `to` that are below the limit to words[low]
 * and on; the new low. Without a branch on the words: on random ones every second
 * guess would be wrong.
 */
static u64 sweep_run(u64 *words, u64 from, u64 to, u64 low, u64 limit)
{
	u64 i, word;

	for (i = from; i < to; i++) {
		word = words[i];
		words[i] = words[low];
		words[low] = word;
		low += word < limit;
	}
	return low;
}

/* How many words were below the limit, now in front; STOPPED: not all done. */
static u64 sweep(u64 *words, u64 count, u64 limit, const struct zm_stop *stop)
{
	u64 low = 0, from, to;

	for (from = 0; from < count; from = to) {
		to = count - from > LONG_RUN ? from + LONG_RUN : count;
		low = sweep_run(words, from, to, low, limit);
		if (to == count)
			break;
		zm_port_yield();
		if (zm_stop_wanted(stop))
			return STOPPED;
	}
	return low;
}

/*
 * Splits in two non-empty parts; the words of the first are smaller than those
 * of the second. Returns count where all are equal, or STOPPED.
 */
static u64 partition(u64 *words, u64 count, const struct zm_stop *stop)
{
	u64 pivot = median(words[0], words[count / 2], words[count - 1]);
	u64 low = sweep(words, count, pivot, stop);

	if (!low && pivot + 1)
		low = sweep(words, count, pivot + 1, stop);
	return low ? low : count;
}

/*
 * False where the stop (NULL: none) was wanted: the words are the same, in no
 * order.
 */
bool zm_sort64(u64 *words, u64 count, const struct zm_stop *stop)
{
	struct {
		u64 *words;
		u64 count;
	} waiting[DEPTH_MAX];
	u64 split, sorted = 0;
	u32 depth = 0;

	for (;;) {
		while (count > SHORT_RUN) {
			split = partition(words, count, stop);
			if (split == STOPPED)
				return false;
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
			return true;
		sorted += count;
		if (sorted > LONG_RUN) {
			sorted = 0;
			zm_port_yield();
			if (zm_stop_wanted(stop))
				return false;
		}
		words = waiting[--depth].words;
		count = waiting[depth].count;
	}
}

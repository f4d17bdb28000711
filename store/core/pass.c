// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The pass: finds every pair of identical pages and makes them share.
 *
 * It reads fingerprints, which were taken when the pages were written; it does
 * not hash, and decompresses only where two codecs made what it compares. Four
 * steps:
 *
 *   sample   the slots whose fingerprint falls into one part in 2^k. Twins
 *            fall in or out together, so the share of duplicates among them
 *            estimates the whole's; only few large groups may all be out. So
 *            some slots are picked by chance as well: a large group is among
 *            them many times over. The larger share counts. Below the
 *            threshold the pass ends here, after one walk over the slots.
 *   find     a table of 2-bit cells, sixteen for each page, notes which cells
 *            a fingerprint fell into once, and which more often. It may
 *            suspect too many, never too few.
 *   collect  the suspects, as words of fingerprint and slot, and sort them:
 *            equal fingerprints now stand together.
 *   meld     within each group the first page's stored bytes are compared
 *            with each other's; equal ones get the first one's share. Those
 *            that differ (a collision) form the next group.
 *
 * Memory is bounded: half of it for the cells, half for the suspects. When
 * these do not fit, the upper half of them by fingerprint is dropped and the
 * round covers the lower range only; the next round covers the rest. A group
 * too large even so is melded in pieces, each of which leaves one page to
 * compare the next piece with.
 *
 * Invariants:
 *   - stored bytes are compared under the locks of the slots that hold them, or
 *     with a copy of those of a share that the pass holds;
 *   - two slots are locked only here, the lower index first;
 *   - slots that change while the pass runs may be missed, and so is what stands
 *     on a backing device; all others with equal pages and fingerprints share
 *     when it ends;
 *   - it works with a codec stream of its own and yields between groups and
 *     within large ones.
 */
#include "pass.h"

#define MEMORY_MIN	(64u << 10)
#define CELLS_A_WORD	32
#define HELD_BYTES	(2 * ZM_PAGE_SIZE)

bool zm_pass_should_stop(struct zm_pass *pass)
{
	u64 now;

	if (zm_load32(&pass->store->pass_stop) || zm_port_interrupted())
		return true;
	if (!pass->time_ns_max)
		return false;
	now = zm_port_time_ns();
	return now - pass->started_ns > pass->time_ns_max;
}

/* Whether a slot, looked at without its lock, may have a twin. */
static inline bool slot_counts(const struct zm_slot *slot, u32 *fingerprint)
{
	u32 state = zm_load32(&slot->state);

	if (!(state & ZM_STATE_FINGERPRINTED))
		return false;
	*fingerprint = zm_load32(&slot->fingerprint);
	return true;
}

/*
 * The cells by themselves: in a walk over all slots they stay in registers,
 * where fields of the pass would be read again after each store to a cell.
 */
struct cells {
	u64 *words;
	u64 count;
};

static inline struct cells pass_cells(const struct zm_pass *pass)
{
	return (struct cells){ pass->cells, pass->cell_count };
}

static inline bool cell_repeats(struct cells cells, u32 fingerprint)
{
	u64 cell = fingerprint * cells.count >> 32;

	return cells.words[cell / CELLS_A_WORD] >> cell % CELLS_A_WORD * 2 & 2;
}

/* 0 becomes 1 (once), 1 and 3 become 3 (more often). */
static inline void cell_note(struct cells cells, u32 fingerprint)
{
	u64 cell = fingerprint * cells.count >> 32;
	u64 *word = &cells.words[cell / CELLS_A_WORD];
	u32 shift = cell % CELLS_A_WORD * 2;

	*word |= (*word >> shift & 1) << (shift + 1) | 1ull << shift;
}

static void pass_find(struct zm_pass *pass)
{
	const struct zm_slot *slots = pass->store->slots;
	struct cells cells = pass_cells(pass);
	u64 start, end, index;
	u32 fingerprint;

	for (start = 0; start < pass->store->slot_count; start = end) {
		zm_port_yield();
		end = zm_turn_end(pass->store, start);
		for (index = start; index < end; index++)
			if (slot_counts(&slots[index], &fingerprint))
				cell_note(cells, fingerprint);
	}
}

/* -- Collect --------------------------------------------------------------- */

/*
 * Room for more suspects: drops the upper half by fingerprint and lowers the
 * round's end; or, where one fingerprint fills the half, melds that group and
 * keeps one page of each content.
 */
static int suspects_make_room(struct zm_pass *pass, u64 *end)
{
	u64 *suspects = pass->suspects;
	u64 middle = pass->suspect_count / 2, last;
	u32 fingerprint;
	s64 leaders;

	zm_sort64(suspects, pass->suspect_count);
	fingerprint = zm_suspect_fingerprint(suspects[middle]);
	while (middle &&
	       zm_suspect_fingerprint(suspects[middle - 1]) == fingerprint)
		middle--;
	if (middle) {
		*end = fingerprint;
		pass->suspect_count = middle;
		return 0;
	}
	for (last = 0; last < pass->suspect_count &&
	     zm_suspect_fingerprint(suspects[last]) == fingerprint; last++)
		;
	leaders = zm_group_meld(pass, suspects, last);
	if (leaders < 0)
		return (int)leaders;
	*end = (u64)fingerprint + 1;
	pass->suspect_count = leaders;
	return 0;
}

/* The suspects of one turn, with fingerprints from `from` to below *end. */
static int collect_turn(struct zm_pass *pass, u64 start, u64 stop, u64 from,
			u64 *end)
{
	const struct zm_slot *slots = pass->store->slots;
	struct cells cells = pass_cells(pass);
	u32 fingerprint;
	u64 index;
	int err;

	for (index = start; index < stop; index++) {
		if (!slot_counts(&slots[index], &fingerprint) ||
		    !cell_repeats(cells, fingerprint) || fingerprint < from ||
		    fingerprint >= *end)
			continue;
		if (pass->suspect_count == pass->suspect_max) {
			err = suspects_make_room(pass, end);
			if (err)
				return err;
			if (fingerprint >= *end)
				continue;
		}
		pass->suspects[pass->suspect_count++] =
			zm_suspect_make(fingerprint, index);
	}
	return 0;
}

/*
 * One round: the suspects with fingerprints from `from`, as many as fit.
 * *end: in and out, where the range ends.
 */
static int pass_collect(struct zm_pass *pass, u64 from, u64 *end)
{
	u64 start, stop;
	int err;

	pass->suspect_count = 0;
	for (start = 0; start < pass->store->slot_count; start = stop) {
		zm_port_yield();
		if (zm_pass_should_stop(pass)) {
			pass->store->pass_resume_at = (u32)from;
			return -EINTR;
		}
		stop = zm_turn_end(pass->store, start);
		err = collect_turn(pass, start, stop, from, end);
		if (err)
			return err;
	}
	zm_sort64(pass->suspects, pass->suspect_count);
	return 0;
}

static int pass_rounds(struct zm_pass *pass, u64 from)
{
	u64 end, started;
	int err;

	while (from < 1ull << 32) {
		started = zm_port_time_ns();
		end = 1ull << 32;
		pass->result->rounds++;
		err = pass_collect(pass, from, &end);
		pass->result->time_find_ns += zm_port_time_ns() - started;
		if (err)
			return err;
		started = zm_port_time_ns();
		err = zm_suspects_meld(pass);
		pass->result->time_meld_ns += zm_port_time_ns() - started;
		if (err)
			return err;
		from = end;
	}
	pass->store->pass_resume_at = 0;
	return 0;
}

/* -- The whole ------------------------------------------------------------- */

static int pass_borrow(struct zm_pass *pass, u64 memory_max)
{
	u64 half = memory_max / 2;

	pass->cell_bytes = half / sizeof(u64) * sizeof(u64);
	pass->cell_count = pass->cell_bytes * 4;
	/* A fingerprint times the cells must stay within 64 bits. */
	if (pass->cell_count >= 1ull << 32) {
		pass->cell_count = (1ull << 32) - CELLS_A_WORD;
		pass->cell_bytes = pass->cell_count / 4;
	}
	pass->suspect_bytes = half / sizeof(u64) * sizeof(u64);
	pass->suspect_max = pass->suspect_bytes / sizeof(u64);
	pass->cells = zm_port_table_alloc(pass->cell_bytes);
	pass->suspects = zm_port_table_alloc(pass->suspect_bytes);
	pass->held_bytes = zm_port_table_alloc(HELD_BYTES);
	zm_max64(&pass->result->memory_borrowed,
		 pass->cell_bytes + pass->suspect_bytes + HELD_BYTES);
	if (!pass->cells || !pass->suspects || !pass->held_bytes)
		return -ENOMEM;
	pass->held_page = pass->held_bytes + ZM_PAGE_SIZE;
	return 0;
}

static void pass_give_back(struct zm_pass *pass)
{
	zm_port_table_free(pass->cells, pass->cell_bytes);
	zm_port_table_free(pass->suspects, pass->suspect_bytes);
	zm_port_table_free(pass->held_bytes, HELD_BYTES);
}

static bool worth_it(const struct zm_meld_options *options,
		     const struct zm_meld_result *result)
{
	if (!result->duplicates_sampled)
		return !options->threshold_permille &&
		       result->pages_sampled < result->pages_stored;
	return result->duplicates_sampled * 1000 >=
	       options->threshold_permille * result->pages_sampled;
}

/* Everything after the sample, with a stream of the pass's own. */
static int pass_meld(struct zm_pass *pass, bool resume)
{
	struct zm_store *store = pass->store;
	struct zm_streams *streams;
	u64 started;
	int err;

	err = zm_port_streams_create(store->codecs, 1, &streams);
	if (err)
		return err;
	started = zm_port_time_ns();
	pass_find(pass);
	pass->result->time_find_ns = zm_port_time_ns() - started;
	zm_count(&store->counters.passes);
	pass->stream = zm_port_stream_get(streams);
	err = pass_rounds(pass, resume ? store->pass_resume_at : 0);
	zm_port_stream_put(streams, pass->stream);
	zm_port_streams_destroy(streams, zm_share_free);
	return err;
}

static int pass_run(struct zm_pass *pass, const struct zm_meld_options *options)
{
	struct zm_meld_result *result = pass->result;
	u64 memory_max = options->memory_max, started;
	int err;

	started = zm_port_time_ns();
	err = zm_pass_sample(pass);
	result->time_sample_ns = zm_port_time_ns() - started;
	if (err)
		return err;
	if (options->estimate_only)
		return 0;
	if (!worth_it(options, result)) {
		result->below_threshold = true;
		return 0;
	}
	if (!memory_max)
		memory_max = 8 * result->pages_stored;
	if (memory_max < MEMORY_MIN)
		memory_max = MEMORY_MIN;
	err = pass_borrow(pass, memory_max);
	if (!err)
		err = pass_meld(pass, options->resume);
	pass_give_back(pass);
	if (err == -EINTR) {
		result->stopped = true;
		return 0;
	}
	return err;
}

int zm_meld_run(struct zm_store *store, const struct zm_meld_options *options,
		struct zm_meld_result *result)
{
	struct zm_pass pass = {
		.store = store,
		.result = result,
		.time_ns_max = options->time_ns_max,
	};
	int err;

	*result = (struct zm_meld_result){ 0 };
	if (!zm_port_mutex_trylock(store->pass_mutex))
		return -EBUSY;
	pass.started_ns = zm_port_time_ns();
	zm_set32(&store->pass_stop, 0);
	err = pass_run(&pass, options);
	zm_port_mutex_unlock(store->pass_mutex);
	return err;
}

void zm_pass_stop(struct zm_store *store)
{
	zm_set32(&store->pass_stop, 1);
}

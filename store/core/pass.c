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
 * too large even so is melded in pieces, each of which leaves one page of each
 * content, its leaders, to compare the next piece with.
 *
 * Time is bounded: of a group that holds more than ZM_LEADERS_MAX contents, which
 * takes somebody who makes them on purpose, the rest is passed over. So a page
 * is compared with few others, however many have its fingerprint.
 *
 * Invariants:
 *   - stored bytes are compared under the locks of the slots that hold them, or
 *     with a copy of those of a share that the pass holds; nothing is
 *     decompressed under a lock;
 *   - two slots are locked only here, the lower index first;
 *   - slots that change while the pass runs may be missed, and so is what stands
 *     on a backing device or in too crowded a group; all others with equal pages
 *     and fingerprints share when it ends;
 *   - it works with a codec stream of its own, and lets others run and looks
 *     whether to stop every few thousand slots and every few comparisons;
 *   - a pass that goes on where another was stopped and comes as far as to
 *     compare pages gets further: in a group that a stop came into, what was
 *     compared with the first page is left out from then on, and so are the
 *     other contents of a group in which the stop came later.
 *
 * Its place in the life of a page: "shared" in store.h.
 */
#include "pass.h"

#define MEMORY_MIN	(64u << 10)
#define CELLS_A_WORD	32
#define HELD_BYTES	(2 * ZM_PAGE_SIZE)

/* Whether a slot, looked at without its lock, may have a twin. */
static inline bool slot_may_have_twin(const struct zm_slot *slot, u32 *fingerprint)
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

static int pass_find(struct zm_pass *pass)
{
	const struct zm_slot *slots = pass->store->slots;
	struct cells cells = pass_cells(pass);
	u64 start, end, index;
	u32 fingerprint;
	int err = 0;

	for (start = 0; start < pass->store->slot_count && !err; start = end) {
		end = zm_batch_end(pass->store, start);
		for (index = start; index < end; index++)
			if (slot_may_have_twin(&slots[index], &fingerprint))
				cell_note(cells, fingerprint);
		err = zm_pass_pause(pass);
	}
	return err;
}

/* -- Collect --------------------------------------------------------------- */

/*
 * Room for more suspects: drops the upper half by fingerprint and lowers the
 * round's end; or, where one fingerprint fills the half, melds that group and
 * keeps one page of each content, at most ZM_LEADERS_MAX.
 */
static int suspects_make_room(struct zm_pass *pass, u64 *end)
{
	u64 *suspects = pass->suspects;
	u64 count = pass->suspect_count, middle, last;
	u32 fingerprint;
	s64 leaders;

	if (!zm_sort64(suspects, count, &pass->stop))
		return -EINTR;
	fingerprint = zm_suspect_fingerprint(suspects[count / 2]);
	middle = zm_suspects_below(suspects, 0, count, fingerprint);
	if (middle) {
		*end = fingerprint;
		pass->suspect_count = middle;
		return 0;
	}
	last = zm_suspects_below(suspects, 0, count, (u64)fingerprint + 1);
	leaders = zm_group_meld(pass, suspects, last);
	if (leaders < 0)
		return (int)leaders;
	*end = (u64)fingerprint + 1;
	pass->suspect_count = leaders;
	return 0;
}

/* Whether a pass that was stopped has compared this slot with the first. */
static bool is_done(struct zm_pass *pass, u32 fingerprint, u64 slot)
{
	bool first = !pass->resumed_first;

	if (fingerprint != pass->resumed.fingerprint ||
	    slot >= pass->resumed.slots_done)
		return false;
	pass->resumed_first = true;
	return !first;
}

/* -EUCLEAN: there is no room. */
static int suspect_add(struct zm_pass *pass, u64 suspect)
{
	if (pass->suspect_count >= pass->suspect_max) {
		zm_port_warn("a pass has no room for a suspect");
		return -EUCLEAN;
	}
	pass->suspects[pass->suspect_count++] = suspect;
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
		if (!slot_may_have_twin(&slots[index], &fingerprint) ||
		    !cell_repeats(cells, fingerprint) || fingerprint < from ||
		    fingerprint >= *end || is_done(pass, fingerprint, index))
			continue;
		if (pass->suspect_count == pass->suspect_max) {
			err = suspects_make_room(pass, end);
			if (err)
				return err;
			if (fingerprint >= *end)
				continue;
		}
		err = suspect_add(pass, zm_suspect_make(fingerprint, index));
		if (err)
			return err;
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
	pass->resumed_first = false;
	for (start = 0; start < pass->store->slot_count; start = stop) {
		stop = zm_batch_end(pass->store, start);
		err = collect_turn(pass, start, stop, from, end);
		if (!err)
			err = zm_pass_pause(pass);
		if (err)
			return err;
	}
	return zm_sort64(pass->suspects, pass->suspect_count, &pass->stop) ?
	       0 : -EINTR;
}

static int pass_rounds(struct zm_pass *pass)
{
	struct zm_resume *resume = &pass->store->resume;
	u64 from = resume->from, end, started;
	int err;

	zm_port_mutex_assert_held(pass->store->pass_mutex);
	while (from < ZM_FINGERPRINTS_END) {
		started = zm_port_time_ns();
		end = ZM_FINGERPRINTS_END;
		resume->from = from;
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
	*resume = (struct zm_resume){ 0 };
	return 0;
}

/* -- The whole ------------------------------------------------------------- */

/*
 * Half of it are cells, the other half suspects, no more of these than there are
 * pages: what is beyond that, however much is offered, would not be used.
 */
static u64 memory_usable(const struct zm_pass *pass, u64 memory_max)
{
	u64 useful = 2 * sizeof(u64) * pass->result->pages_stored;

	if (!memory_max)
		memory_max = useful / 2;
	if (memory_max > useful)
		memory_max = useful;
	return memory_max < MEMORY_MIN ? MEMORY_MIN : memory_max;
}

static int pass_borrow(struct zm_pass *pass, u64 memory_max)
{
	u64 half = memory_usable(pass, memory_max) / 2;

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
	/* The sample's room was less. */
	pass->result->memory_borrowed =
		pass->cell_bytes + pass->suspect_bytes + HELD_BYTES;
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
static int pass_meld(struct zm_pass *pass)
{
	struct zm_store *store = pass->store;
	struct zm_streams *streams;
	u64 started;
	int err;

	err = zm_port_streams_create(store->codecs, 1, &streams);
	if (err)
		return err;
	started = zm_port_time_ns();
	zm_count(&store->counters->passes);
	pass->stream = zm_port_stream_get(streams);
	err = pass_find(pass);
	pass->result->time_find_ns = zm_port_time_ns() - started;
	if (!err)
		err = pass_rounds(pass);
	zm_port_stream_put(streams, pass->stream);
	zm_port_streams_destroy(streams, zm_share_free);
	return err;
}

static int pass_run(struct zm_pass *pass, const struct zm_meld_options *options)
{
	struct zm_meld_result *result = pass->result;
	u64 started;
	int err;

	started = zm_port_time_ns();
	err = zm_pass_sample(pass);
	result->time_sample_ns = zm_port_time_ns() - started;
	if (err || options->estimate_only)
		return err;
	if (!worth_it(options, result)) {
		result->below_threshold = true;
		return 0;
	}
	err = pass_borrow(pass, options->memory_max);
	if (!err)
		err = pass_meld(pass);
	pass_give_back(pass);
	return err;
}

int zm_meld_run(struct zm_store *store, const struct zm_meld_options *options,
		struct zm_meld_result *result)
{
	struct zm_pass pass = {
		.store = store,
		.result = result,
		.stop = zm_stop_watch(store, options->stops_seen,
				      options->time_ns_max),
	};
	int err;

	*result = (struct zm_meld_result){ 0 };
	if (!zm_port_mutex_trylock(store->pass_mutex))
		return -EBUSY;
	if (!options->resume && !options->estimate_only)
		store->resume = (struct zm_resume){ 0 };
	pass.resumed = store->resume;
	err = pass_run(&pass, options);
	zm_port_mutex_unlock(store->pass_mutex);
	result->stopped = err == -EINTR;
	return result->stopped ? 0 : err;
}

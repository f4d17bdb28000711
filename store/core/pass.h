/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A pass under way, and its parts: sample.c estimates, pass.c finds and
 * collects, meld.c melds. The idea and the invariants are in pass.c.
 */
#ifndef ZMELD_CORE_PASS_H
#define ZMELD_CORE_PASS_H

#include "store.h"

/* Between two looks at the stop: slots walked over, pages compared. */
#define ZM_SLOTS_PER_BATCH		4096
#define ZM_COMPARED_PER_BATCH	16

/* One fingerprint of one slot, sorted by fingerprint. */
static inline u64 zm_suspect_make(u32 fingerprint, u64 slot)
{
	return (u64)fingerprint << 32 | slot;
}

static inline u32 zm_suspect_fingerprint(u64 suspect)
{
	return suspect >> 32;
}

static inline u64 zm_suspect_slot(u64 suspect)
{
	return suspect & 0xffffffffu;
}

/*
 * Of sorted suspects, the first from `from` on with a fingerprint of `limit` or
 * more, or their count. In steps that double and then halve: one fingerprint can
 * have as many as there are.
 */
static inline u64 zm_suspects_below(const u64 *suspects, u64 from, u64 count,
				    u64 limit)
{
	u64 end = from, step = 1, middle;

	while (end < count && zm_suspect_fingerprint(suspects[end]) < limit) {
		from = end + 1;
		end += step;
		step *= 2;
	}
	if (end > count)
		end = count;
	while (from < end) {
		middle = from + (end - from) / 2;
		if (zm_suspect_fingerprint(suspects[middle]) < limit)
			from = middle + 1;
		else
			end = middle;
	}
	return from;
}

struct zm_pass {
	struct zm_store *store;
	struct zm_stream *stream;
	struct zm_meld_result *result;
	struct zm_stop stop;
	struct zm_resume resumed;	/* what another pass did before */
	bool resumed_first;	/* the first slot of its fingerprint was seen */

	u64 *cells;		/* 2 bits each */
	u64 cell_count;
	u64 cell_bytes;
	u64 *suspects;
	u64 suspect_count;
	u64 suspect_max;
	u64 suspect_bytes;
	u64 compared;		/* pairs so far */

	/* The group's first page, once it is known to have a twin. */
	struct zm_share *leader_share; /* the pass holds it */
	struct zm_copy copy;	/* its stored bytes, in held_bytes */
	struct zm_copy other;	/* another page's, where two codecs made them */
	u8 *held_bytes;
	u8 *held_page;		/* the page they make, once page_is_made */
	bool page_is_made;
};

/* No fingerprint, but behind all of them. */
#define ZM_FINGERPRINTS_END (1ull << 32)

/* The slots of a turn: what is done between two looks at the stop. */
static inline u64 zm_batch_end(const struct zm_store *store, u64 start)
{
	u64 left = store->slot_count - start;

	return start + (left < ZM_SLOTS_PER_BATCH ? left : ZM_SLOTS_PER_BATCH);
}

/* Lets others run. -EINTR: somebody wants the pass to stop. */
static inline int zm_pass_pause(struct zm_pass *pass)
{
	zm_port_yield();
	return zm_stop_wanted(&pass->stop) ? -EINTR : 0;
}

/* sample.c */
int zm_pass_sample(struct zm_pass *pass);

/* meld.c */
s64 zm_group_meld(struct zm_pass *pass, u64 *group, u64 count);
int zm_suspects_meld(struct zm_pass *pass);

#endif /* ZMELD_CORE_PASS_H */

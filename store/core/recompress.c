// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Recompression: objects made again by a codec that works harder, as zram does
 * it.
 *
 * One object at a time. Its page is made under its lock, as a read makes it;
 * checked against its fingerprint; compressed anew with no lock held; and where
 * that pays, room is taken for the result. Then the slot or the share is locked
 * again, and if it is still the same the new object takes the old one's place.
 *
 * What tells that it is the same: a slot with an object of its own gets a mark,
 * which anything else that the slot is given wipes out; a share is held, and
 * the page of a share never changes. A share is replaced for all its slots at
 * once.
 *
 * With a limit on the objects to try, the largest are tried, as they have most
 * to give: a first walk over the slots counts candidates by size, the second
 * takes those from a certain size on.
 *
 * New objects take room before the old ones give theirs back, and that is free in the
 * pool only where all of a span's objects went. So while the pool is above the store's
 * limit it is packed before each new object, and none is made that would take it
 * LIMIT_PART of the limit further, or further than it was.
 *
 * Invariants:
 *   - an object goes only when its page was read from it, had its fingerprint
 *     (if one was taken), and a smaller object of that page is in its place;
 *   - no mark is left when it ends.
 *
 * Locking: the pass's mutex keeps passes and other recompressions out. Slot,
 * share, pool, as everywhere; nothing is allocated or compressed under them.
 *
 * Its place in the life of a page: "made anew" in store.h.
 */
#include "store.h"

/* Sizes that differ by less count as one where the largest are chosen. */
#define SIZE_STEP	64
#define SIZE_STEPS	(ZM_PAGE_SIZE / SIZE_STEP + 1)
/* What the pool may take beyond the limit, a part of that: in classes not full yet. */
#define LIMIT_PART	16
/* An object among its slots; below 2^32 slots no sum of them overflows. */
#define WHOLE		(1u << 20)

struct recompression {
	struct zm_store *store;
	struct zm_stream *stream;
	const struct zm_recompress_options *options;
	struct zm_recompress_result *result;
	struct zm_stop stop;
	u64 *sizes;		/* candidates by size, in parts of WHOLE */
	u32 size_min;		/* of what is tried */
	u64 bytes_max;		/* of the pool; 0: any */
	u8 *page;
};

/* The object of one slot or share, taken for an attempt. */
struct attempt {
	u64 index;
	struct zm_share *share;	/* held; or NULL: the slot is marked */
	struct zm_content content;
	struct zm_copy copy;	/* its bytes; in the stream */
};

/* -- Which objects ---------------------------------------------------------- */

static bool object_fits(const struct recompression *run,
			struct zm_object object)
{
	return object.size >= run->size_min &&
	       object.priority < run->options->priority;
}

/* pre: locked. */
static u32 share_tried(const struct zm_share *share)
{
	return (zm_load32(&share->state) & ZM_SHARE_TRIED_MASK) >>
	       ZM_SHARE_TRIED_SHIFT;
}

/*
 * A share has many slots and is tried for one of them: what did not help is
 * remembered. pre: locked.
 */
static bool share_fits(const struct recompression *run,
		       const struct zm_share *share)
{
	return zm_share_is_picked(share, run->options->which) &&
	       !zm_share_is(share, ZM_SHARE_INCOMPRESSIBLE) &&
	       object_fits(run, zm_share_object(share)) &&
	       share_tried(share) < run->options->priority;
}

/* What a slot says alone; of a share it does not say much. */
static bool slot_fits(const struct recompression *run,
		      struct zm_content content)
{
	if (!zm_slot_is_picked(content, run->options->which))
		return false;
	if (zm_state_kind(content.state) == ZM_KIND_SHARE)
		return true;
	return !(content.state & ZM_STATE_INCOMPRESSIBLE) &&
	       object_fits(run, zm_content_object(content));
}

/*
 * The size of what would be tried for this slot, or 0: nothing. *part: how much
 * of an object the slot stands for.
 */
static u32 slot_size(struct recompression *run, struct zm_slot *slot, u32 *part)
{
	struct zm_content content;
	struct zm_share *share;
	u32 size = 0;

	*part = WHOLE;
	zm_slot_lock(slot);
	content = zm_slot_content(slot);
	if (!slot_fits(run, content))
		goto unlock;
	if (zm_state_kind(content.state) == ZM_KIND_OBJECT) {
		size = zm_content_object(content).size;
		goto unlock;
	}
	share = zm_content_share(content);
	zm_share_lock(share);
	if (share_fits(run, share)) {
		size = share->size;
		*part = WHOLE / share->count;
	}
	zm_share_unlock(share);
unlock:
	zm_slot_unlock(slot);
	return size;
}

/* False where it was asked to stop. */
static bool count_sizes(struct recompression *run)
{
	struct zm_store *store = run->store;
	u32 size, part;
	u64 index;

	for (index = 0; index < store->slot_count; index++) {
		if (zm_stop_between_slots(&run->stop, index))
			return false;
		size = slot_size(run, &store->slots[index], &part);
		if (size)
			run->sizes[size / SIZE_STEP] += part;
	}
	return true;
}

/*
 * Leaves the smaller ones out where not all may be tried. Asked to stop, it
 * chooses none: who tries them will be asked as well.
 */
static int choose_largest(struct recompression *run)
{
	u64 bytes = SIZE_STEPS * sizeof(u64), found = 0;
	u64 wanted = run->options->pages_max;
	u32 step = SIZE_STEPS;

	if (!wanted || wanted >= run->store->slot_count)
		return 0;
	run->sizes = zm_port_table_alloc(bytes);
	if (!run->sizes)
		return -ENOMEM;
	if (!count_sizes(run))
		step = 0;
	/* To the nearest: what shares stand for is rounded down. */
	while (step && found + WHOLE / 2 < wanted * WHOLE)
		found += run->sizes[--step];
	if (run->size_min < step * SIZE_STEP)
		run->size_min = step * SIZE_STEP;
	zm_port_table_free(run->sizes, bytes);
	return 0;
}

/* -- One object ------------------------------------------------------------- */

/* Copies a share's bytes and holds it. pre: its slot is locked. */
static bool share_start(struct recompression *run, struct attempt *attempt)
{
	struct zm_share *share = zm_content_share(attempt->content);
	bool fits;

	zm_share_lock(share);
	fits = share_fits(run, share);
	if (fits) {
		zm_object_copy(run->store, zm_share_object(share),
			       run->stream->packed, &attempt->copy);
		zm_share_mark(share, ZM_SHARE_IDLE_MASK, 0);
		zm_share_hold(run->store, share);
		attempt->share = share;
	}
	zm_share_unlock(share);
	return fits;
}

/* Copies the slot's object and keeps track of it. False: it is not wanted. */
static bool attempt_start(struct recompression *run, struct attempt *attempt)
{
	struct zm_slot *slot = &run->store->slots[attempt->index];
	struct zm_content content;
	bool fits;

	zm_slot_lock(slot);
	content = zm_slot_content(slot);
	attempt->content = content;
	fits = slot_fits(run, content);
	if (fits && zm_state_kind(content.state) == ZM_KIND_SHARE) {
		fits = share_start(run, attempt);
	} else if (fits) {
		zm_object_copy(run->store, zm_content_object(content),
			       run->stream->packed, &attempt->copy);
		zm_set32(&slot->state, zm_load32(&slot->state) |
				       ZM_STATE_MARKED);
	}
	/* As zram has it: what was worked on is not idle any more. */
	if (fits)
		zm_slot_accessed(slot);
	zm_slot_unlock(slot);
	return fits;
}

/* Whether the store has no codec that works harder than this one. */
static bool is_last_codec(const struct zm_store *store, u32 priority)
{
	while (++priority < ZM_PRIORITIES)
		if (store->codecs[priority].ops)
			return false;
	return true;
}

/*
 * Puts the new object in the place of the slot's own. NULL: there is none, since no
 * codec up to `tried` helped (0: none was tried); where no other is left, the slot's
 * own is marked incompressible. False: the slot holds something else by now.
 */
static bool slot_finish(struct recompression *run, struct attempt *attempt,
			const struct zm_object *object, u32 tried)
{
	struct zm_store *store = run->store;
	struct zm_slot *slot = &store->slots[attempt->index];
	struct zm_content content;
	struct zm_object old;
	bool same;

	zm_slot_lock(slot);
	content = zm_slot_content(slot);
	same = content.state & ZM_STATE_MARKED;
	if (!same)
		goto unlock;
	content.state &= ~ZM_STATE_MARKED;
	if (is_last_codec(store, tried))
		content.state |= ZM_STATE_INCOMPRESSIBLE;
	if (object) {
		old = zm_content_object(content);
		content.value = object->handle.value;
		content.state = zm_state_of_object(*object) |
				(content.state & (ZM_STATE_FINGERPRINTED |
						  ZM_STATE_IDLE));
		if (zm_object_is_raw(old))
			zm_uncount(&store->counters->pages_raw);
	}
	zm_slot_set(slot, content);
unlock:
	zm_slot_unlock(slot);
	if (same && object)
		zm_object_free(store, old);
	return same;
}

/* No codec up to this one helped. pre: locked, in the pool. */
static void share_note_tried(const struct zm_store *store,
			     struct zm_share *share, u32 tried)
{
	u32 set = is_last_codec(store, tried) ? ZM_SHARE_INCOMPRESSIBLE : 0;

	if (tried < share_tried(share))
		tried = share_tried(share);
	zm_share_mark(share, ZM_SHARE_TRIED_MASK,
		      set | tried << ZM_SHARE_TRIED_SHIFT);
}

/* The same for a share. False: it has left the pool by now, or is being read. */
static bool share_finish(struct recompression *run, struct attempt *attempt,
			 const struct zm_object *object, u32 tried)
{
	struct zm_share *share = attempt->share;
	bool here;

	zm_share_lock(share);
	here = zm_share_is_here(share) &&
	       !(object && zm_share_is_pinned(share));
	if (here && object)
		zm_share_replace(run->store, share, *object);
	else if (here)
		share_note_tried(run->store, share, tried);
	zm_share_put(run->store, share);
	return here;
}

static bool attempt_finish(struct recompression *run, struct attempt *attempt,
			   const struct zm_object *object, u32 tried)
{
	bool same = attempt->share ?
		    share_finish(run, attempt, object, tried) :
		    slot_finish(run, attempt, object, tried);

	if (!same)
		run->result->raced++;
	return same;
}

/* Makes the page of the copy. False: it is not the page that was written. */
static bool attempt_read(struct recompression *run, struct attempt *attempt)
{
	struct zm_store *store = run->store;

	if (zm_bytes_unpack(store, run->stream, attempt->copy.priority,
			    attempt->copy.bytes, attempt->copy.size,
			    run->page)) {
		zm_count(&store->counters->damaged);
		return false;
	}
	return !zm_page_verify(store, attempt->content, run->page);
}

/* Compresses the page. False: that takes no less memory. */
static bool attempt_pack(struct recompression *run, u32 old_size,
			 const void **bytes, struct zm_object *object)
{
	const struct zm_recompress_options *options = run->options;
	struct zm_pool *pool = run->store->pool;

	object->priority = options->priority;
	object->size = zm_page_pack(run->store, run->stream, options->priority,
				    run->page, bytes);
	if (options->size_min && object->size >= options->size_min)
		return false;
	return zm_port_pool_class(pool, object->size) <
	       zm_port_pool_class(pool, old_size);
}

/* Gives room back that is free between objects, where the pool is above the limit. */
static void pack_above_limit(struct zm_store *store)
{
	u64 limit = zm_load64(&store->memory_limit);

	if (limit && zm_port_pool_used(store->pool) > limit)
		zm_port_pool_compact(store->pool);
}

/* pre: it was started; ends it. -ENOMEM: no room for the new object. */
static int attempt_recompress(struct recompression *run,
			      struct attempt *attempt)
{
	struct zm_recompress_result *result = run->result;
	struct zm_object object;
	const void *bytes;

	result->pages_tried++;
	if (!attempt_read(run, attempt)) {
		result->pages_damaged++;
		attempt_finish(run, attempt, NULL, 0);
		return 0;
	}
	if (!attempt_pack(run, attempt->copy.size, &bytes, &object)) {
		if (attempt_finish(run, attempt, NULL, object.priority) &&
		    is_last_codec(run->store, object.priority))
			result->pages_incompressible++;
		return 0;
	}
	pack_above_limit(run->store);
	if (zm_object_store(run->store, run->stream, bytes, run->bytes_max,
			    &object)) {
		attempt_finish(run, attempt, NULL, 0);
		return -ENOMEM;
	}
	if (!attempt_finish(run, attempt, &object, 0)) {
		zm_object_free(run->store, object);
		return 0;
	}
	result->pages_recompressed++;
	result->bytes_before += attempt->copy.size;
	result->bytes_after += object.size;
	return 0;
}

/* -- The whole -------------------------------------------------------------- */

static int recompress_slots(struct recompression *run)
{
	u64 pages_max = run->options->pages_max;
	struct zm_store *store = run->store;
	struct zm_content hint = { 0 };
	u64 index;
	int err;

	for (index = 0; index < store->slot_count; index++) {
		struct attempt attempt = { .index = index };

		if (zm_stop_between_slots(&run->stop, index) ||
		    zm_stop_wanted(&run->stop)) {
			run->result->stopped = true;
			return 0;
		}
		if (pages_max && run->result->pages_tried >= pages_max)
			return 0;
		hint.state = zm_load32(&store->slots[index].state);
		if (!slot_fits(run, hint) || !attempt_start(run, &attempt))
			continue;
		err = attempt_recompress(run, &attempt);
		if (err)
			return err;
		zm_port_yield();
	}
	return 0;
}

static u64 bytes_max(struct zm_store *store)
{
	u64 limit = zm_load64(&store->memory_limit);
	u64 used = zm_port_pool_used(store->pool);
	u64 max = limit + limit / LIMIT_PART;

	if (!limit || max < limit)
		return 0;
	return max > used ? max : used;
}

static int recompress_run(struct recompression *run)
{
	struct zm_streams *streams;
	int err;

	zm_port_mutex_assert_held(run->store->pass_mutex);
	err = choose_largest(run);
	if (err)
		return err;
	err = zm_port_streams_create(run->store->codecs, 1, &streams);
	if (err)
		return err;
	run->stream = zm_port_stream_get(streams);
	run->page = run->stream->page;
	run->bytes_max = bytes_max(run->store);
	err = recompress_slots(run);
	pack_above_limit(run->store);
	zm_port_stream_put(streams, run->stream);
	zm_port_streams_destroy(streams, zm_share_free);
	return err;
}

static bool options_are_valid(const struct zm_store *store,
			      const struct zm_recompress_options *options)
{
	if (options->which & ~(u32)(ZM_PICK_IDLE | ZM_PICK_HUGE) ||
	    options->size_min > ZM_PAGE_SIZE)
		return false;
	return options->priority && options->priority < ZM_PRIORITIES &&
	       store->codecs[options->priority].ops;
}

int zm_recompress_run(struct zm_store *store,
		      const struct zm_recompress_options *options,
		      struct zm_recompress_result *result)
{
	struct recompression run = {
		.store = store,
		.options = options,
		.result = result,
		.size_min = options->size_min,
		.stop = zm_stop_watch(store, options->stops_seen, 0),
	};
	int err;

	*result = (struct zm_recompress_result){ 0 };
	if (!options_are_valid(store, options))
		return -EINVAL;
	if (!zm_port_mutex_trylock(store->pass_mutex))
		return -EBUSY;
	err = recompress_run(&run);
	zm_port_mutex_unlock(store->pass_mutex);
	return err;
}

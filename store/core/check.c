// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The walking check: looks at every slot, recomputes every counter, and says in
 * words what is wrong.
 *
 * What is held is told by the slots alone, so each sum over them has to be what
 * the counters say; each share has to have as many slots as it counts; no
 * object may belong to two, no block either, and each block that is in use has
 * to be marked taken. Reads and writebacks under way hold shares and blocks that
 * no slot tells of: the counters keep those apart.
 *
 * It works with a codec stream of its own where it decompresses, lets others run
 * and looks whether to stop every thousand slots or words.
 */
#include "store.h"

#define WORDS_PER_BATCH 1024

struct zm_check {
	struct zm_store *store;
	u32 level;
	char *text;		/* what is wrong: its end, and what is left */
	size_t text_left;
	u64 faults;
	struct zm_counters sum;
	u64 *handles;		/* of objects in slots, and of shares once */
	u64 handle_count;
	u64 *blocks;		/* of backed shares */
	u64 block_count;
	u64 *shares;		/* one for each slot that shares */
	u64 share_count;
	u64 room;		/* in each of the three */
	u8 *page;
	struct zm_stop stop;
};

/* What does not fit is cut. */
#define SAY(check, ...)							\
	do {								\
		struct zm_check *c_ = (check);				\
		size_t said_ = zm_port_print(c_->text, c_->text_left,	\
					     __VA_ARGS__);		\
									\
		c_->text += said_;					\
		c_->text_left -= said_;					\
	} while (0)

#define FAULT(check, ...)						\
	do {								\
		if ((check)->faults++ < 20)				\
			SAY(check, __VA_ARGS__);			\
	} while (0)

static void check_object(struct zm_check *check, unsigned long long slot,
			 struct zm_object object)
{
	if (!object.size || object.size > ZM_PAGE_SIZE ||
	    (object.size >= check->store->huge_size &&
	     !zm_object_is_raw(object)))
		FAULT(check, "slot %llu: object of %u bytes\n", slot,
		      object.size);
	if (!check->store->codecs[object.priority].ops)
		FAULT(check, "slot %llu: no codec of priority %u\n", slot,
		      object.priority);
}

static void check_share_state(struct zm_check *check, unsigned long long slot,
			      struct zm_share *share)
{
	zm_share_lock(share);
	if (!share->count)
		FAULT(check, "slot %llu: its share has no slots\n", slot);
	if (zm_share_is(share, ZM_SHARE_WRITING) && !share->held)
		FAULT(check, "slot %llu: its share is written by nobody\n",
		      slot);
	if (zm_share_is(share, ZM_SHARE_BACKED) &&
	    zm_share_is(share, ZM_SHARE_WRITING))
		FAULT(check, "slot %llu: its share is backed and written\n",
		      slot);
	check_object(check, slot, zm_share_object(share));
	zm_share_unlock(share);
}

static void check_state(struct zm_check *check, u64 index,
			struct zm_content content)
{
	enum zm_kind kind = zm_state_kind(content.state);
	unsigned long long slot = index;

	if (kind > ZM_KIND_SHARE) {
		FAULT(check, "slot %llu: unknown kind %u\n", slot, kind);
		return;
	}
	if (kind == ZM_KIND_EMPTY && content.value)
		FAULT(check, "slot %llu: empty, but has a value\n", slot);
	if (!zm_state_has_object(content.state)) {
		if (content.state & ZM_STATE_FINGERPRINTED)
			FAULT(check, "slot %llu: fingerprint without object\n",
			      slot);
		return;
	}
	if (!content.value) {
		FAULT(check, "slot %llu: no object behind it\n", slot);
		return;
	}
	if (content.state & ZM_STATE_MARKED && check->level >= ZM_CHECK_COUNTS)
		FAULT(check, "slot %llu: marked, but nothing runs\n", slot);
	if (kind == ZM_KIND_OBJECT)
		check_object(check, slot, zm_content_object(content));
	else
		check_share_state(check, slot, zm_content_share(content));
}

static void check_sum(struct zm_check *check, struct zm_content content)
{
	enum zm_kind kind = zm_state_kind(content.state);
	struct zm_object object;

	if (kind == ZM_KIND_EMPTY)
		return;
	check->sum.pages_stored++;
	if (kind == ZM_KIND_SAME) {
		check->sum.pages_same++;
		return;
	}
	if (kind == ZM_KIND_SHARE) {
		check->sum.pages_shared++;
		if (check->share_count < check->room)
			check->shares[check->share_count++] = content.value;
		return;
	}
	object = zm_content_object(content);
	check->sum.pages_raw += zm_object_is_raw(object);
	check->sum.bytes_compressed += object.size;
	if (check->handle_count < check->room)
		check->handles[check->handle_count++] = content.value;
}

static void check_content(struct zm_check *check, struct zm_stream *stream,
			  u64 index, struct zm_content content)
{
	struct zm_store *store = check->store;
	int ret;

	if (!zm_state_has_object(content.state))
		return;
	ret = zm_content_read(store, stream, content, check->page);
	if (ret == ZM_BACKED)
		return;		/* not without I/O */
	if (ret) {
		FAULT(check, "slot %llu: object does not decompress\n",
		      (unsigned long long)index);
		return;
	}
	if (content.state & ZM_STATE_FINGERPRINTED &&
	    zm_fingerprint(store->key, check->page) != content.fingerprint)
		FAULT(check, "slot %llu: page has another fingerprint\n",
		      (unsigned long long)index);
}

/* -EINTR: asked to stop. */
static int check_walk(struct zm_check *check, struct zm_stream *stream)
{
	struct zm_store *store = check->store;
	u32 level = check->level;
	struct zm_content content;
	u64 index, faults;

	for (index = 0; index < store->slot_count; index++) {
		if (index % WORDS_PER_BATCH == 0 || level >= ZM_CHECK_CONTENTS)
			zm_port_yield();
		if (zm_stop_wanted(&check->stop))
			return -EINTR;
		faults = check->faults;
		zm_slot_lock(&store->slots[index]);
		content = zm_slot_content(&store->slots[index]);
		check_state(check, index, content);
		if (faults == check->faults) {
			if (level >= ZM_CHECK_COUNTS)
				check_sum(check, content);
			if (level >= ZM_CHECK_CONTENTS)
				check_content(check, stream, index, content);
		}
		zm_slot_unlock(&store->slots[index]);
	}
	return 0;
}

/* pre: it is the share of `slots` slots. */
static void check_share_sum(struct zm_check *check, struct zm_share *share,
			    u64 slots)
{
	struct zm_counters *sum = &check->sum;

	if (share->count != slots)
		FAULT(check, "share of %u bytes: counts %u, %llu slots use it\n",
		      share->size, share->count, (unsigned long long)slots);
	sum->shares++;
	sum->held += share->held;
	if (zm_share_is_pinned(share))
		FAULT(check, "share of %u bytes: pinned, but nobody reads it\n",
		      share->size);
	if (zm_share_is(share, ZM_SHARE_BACKED)) {
		sum->shares_backed++;
		sum->pages_backed += slots;
		if (!zm_block_is_taken(check->store, share->place))
			FAULT(check, "block %llu is used, but not taken\n",
			      (unsigned long long)share->place);
		check->blocks[check->block_count++] = share->place;
		return;
	}
	sum->bytes_compressed += share->size;
	sum->bytes_melded += (slots - 1) * share->size;
	if (share->size == ZM_PAGE_SIZE)
		sum->pages_raw += slots;
	if (check->handle_count < check->room)
		check->handles[check->handle_count++] = share->place;
}

/* Before each word of a long table. False: asked to stop. */
static bool words_go_on(const struct zm_check *check, u64 i)
{
	if (i % WORDS_PER_BATCH)
		return true;
	zm_port_yield();
	return !zm_stop_wanted(&check->stop);
}

/* Each share once, with the number of its slots. -EINTR: asked to stop. */
static int check_shares(struct zm_check *check)
{
	u64 *shares = check->shares, count = check->share_count;
	struct zm_share *share;
	u64 i, first = 0;

	if (!zm_sort64(shares, count, &check->stop))
		return -EINTR;
	for (i = 0; i < count; i++) {
		if (!words_go_on(check, i))
			return -EINTR;
		if (i + 1 < count && shares[i + 1] == shares[i])
			continue;
		share = (struct zm_share *)(uintptr_t)shares[i];
		zm_share_lock(share);
		check_share_sum(check, share, i + 1 - first);
		zm_share_unlock(share);
		first = i + 1;
	}
	return 0;
}

/* -EINTR: asked to stop. */
static int check_unique(struct zm_check *check, const char *what, u64 *words,
			u64 count)
{
	u64 i;

	if (!zm_sort64(words, count, &check->stop))
		return -EINTR;
	for (i = 1; i < count; i++) {
		if (!words_go_on(check, i))
			return -EINTR;
		if (words[i] == words[i - 1])
			FAULT(check, "%s %llx belongs to two\n", what,
			      (unsigned long long)words[i]);
	}
	return 0;
}

static void check_blocks(struct zm_check *check)
{
	const struct zm_store *store = check->store;
	u64 used = zm_load64(&store->blocks.used);
	u64 in_flight = zm_counter_read(&store->counters->blocks_in_flight);
	u64 taken = zm_blocks_count_taken(store);

	if (taken != used)
		FAULT(check, "blocks_used: counter %llu, %llu are taken\n",
		      (unsigned long long)used, (unsigned long long)taken);
	if (check->block_count + in_flight != taken)
		FAULT(check, "%llu blocks are taken, %llu hold pages, %llu are in flight\n",
		      (unsigned long long)taken,
		      (unsigned long long)check->block_count,
		      (unsigned long long)in_flight);
}

static void check_counters(struct zm_check *check)
{
	const struct zm_counters *held = check->store->counters;
	const struct zm_counters *sum = &check->sum;

#define SAME(name)							\
	do {								\
		u64 held_ = zm_counter_read(&held->name);			\
									\
		if (held_ != sum->name)					\
			FAULT(check, #name ": counter %llu, slots %llu\n", \
			      (unsigned long long)held_,		\
			      (unsigned long long)sum->name);		\
	} while (0)
	SAME(pages_stored);
	SAME(pages_same);
	SAME(pages_raw);
	SAME(pages_shared);
	SAME(pages_backed);
	SAME(shares);
	SAME(shares_backed);
	SAME(held);
	SAME(bytes_compressed);
	SAME(bytes_melded);
#undef SAME
}

/* What the slots told, against each other and the counters. */
static int check_sums(struct zm_check *check)
{
	int err;

	err = check_shares(check);
	if (!err)
		err = check_unique(check, "object", check->handles,
				   check->handle_count);
	if (!err)
		err = check_unique(check, "block", check->blocks,
				   check->block_count);
	if (err)
		return err;
	check_counters(check);
	check_blocks(check);
	return 0;
}

static int check_contents(struct zm_check *check)
{
	struct zm_streams *streams;
	struct zm_stream *stream;
	int err;

	err = zm_port_streams_create(check->store->codecs, 1, &streams);
	if (err)
		return err;
	stream = zm_port_stream_get(streams);
	err = check_walk(check, stream);
	zm_port_stream_put(streams, stream);
	zm_port_streams_destroy(streams, zm_share_free);
	return err;
}

static int check_run(struct zm_check *check)
{
	int err;

	if (check->level >= ZM_CHECK_CONTENTS)
		err = check_contents(check);
	else
		err = check_walk(check, NULL);
	if (!err && check->level >= ZM_CHECK_COUNTS && !check->faults)
		err = check_sums(check);
	if (err)
		return err;
	if (check->faults > 20)
		SAY(check, "... and %llu more\n",
		    (unsigned long long)(check->faults - 20));
	return check->faults ? -EUCLEAN : 0;
}

/* Alone with the store's long work, and with room for what the slots tell. */
static int check_all(struct zm_check *check)
{
	struct zm_store *store = check->store;
	u64 stored = zm_counter_read(&store->counters->pages_stored), bytes;
	int err = -ENOMEM;

	if (!zm_port_mutex_trylock(store->pass_mutex))
		return -EBUSY;
	/* A counter that is wrong may say anything. */
	check->room = (stored < store->slot_count ? stored :
						    store->slot_count) + 1;
	bytes = check->room * sizeof(u64);
	check->page = zm_port_table_alloc(ZM_PAGE_SIZE);
	check->handles = zm_port_table_alloc(bytes);
	check->shares = zm_port_table_alloc(bytes);
	check->blocks = zm_port_table_alloc(bytes);
	if (check->page && check->handles && check->shares && check->blocks)
		err = check_run(check);
	zm_port_table_free(check->page, ZM_PAGE_SIZE);
	zm_port_table_free(check->handles, bytes);
	zm_port_table_free(check->shares, bytes);
	zm_port_table_free(check->blocks, bytes);
	zm_port_mutex_unlock(store->pass_mutex);
	return err;
}

int zm_store_check(struct zm_store *store, u32 level, u64 stops_seen,
		   char *text, size_t text_size)
{
	struct zm_check check = {
		.store = store,
		.level = level,
		.stop = zm_stop_watch(store, stops_seen, 0),
		.text = text,
		.text_left = text_size,
	};

	if (text_size)
		text[0] = '\0';
	return level >= ZM_CHECK_COUNTS ? check_all(&check) : check_run(&check);
}

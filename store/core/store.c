// SPDX-License-Identifier: GPL-2.0-or-later
/* A store's life: making it, changing its settings, counting, ending it. */
#include "store.h"

static u64 slots_bytes(const struct zm_store *store)
{
	return store->slot_count * sizeof(struct zm_slot);
}

static bool options_are_valid(const struct zm_store_options *options)
{
	return options->slots && options->slots <= ZM_SLOTS_MAX &&
	       options->mode <= ZM_MELD_INLINE &&
	       options->check_writes <= ZM_CHECK_WRITES_OFF &&
	       options->codecs[0].ops;
}

/* Prepares what each codec needs; those that are ready have their ops set. */
static int codecs_setup(struct zm_store *store,
			const struct zm_store_options *options)
{
	u32 priority;
	int err;

	for (priority = 0; priority < ZM_PRIORITIES; priority++) {
		const struct zm_codec_choice *choice =
			&options->codecs[priority];
		struct zm_codec_choice *codec = &store->codecs[priority];

		if (!choice->ops)
			continue;
		codec->params = choice->params;
		err = zm_codec_setup(choice->ops, &codec->params);
		if (err)
			return err;
		codec->ops = choice->ops;
	}
	return 0;
}

static void codecs_release(struct zm_store *store)
{
	u32 priority;

	for (priority = 0; priority < ZM_PRIORITIES; priority++) {
		struct zm_codec_choice *codec = &store->codecs[priority];

		if (codec->ops)
			zm_codec_release(codec->ops, &codec->params);
	}
}

/* Everything that can fail for want of memory; what was made stays noted. */
static int store_fill(struct zm_store *store,
		      const struct zm_store_options *options)
{
	int err;

	err = codecs_setup(store, options);
	if (err)
		return err;
	store->counters = zm_port_percpu_create(sizeof(*store->counters));
	if (!store->counters)
		return -ENOMEM;
	store->slots = zm_port_table_alloc(slots_bytes(store));
	store->accessed = zm_port_table_alloc(zm_access_bytes(store));
	store->pass_mutex = zm_port_mutex_create();
	store->mode_mutex = zm_port_mutex_create();
	store->idle_mutex = zm_port_mutex_create();
	store->key = zm_fingerprint_key_create(options->keyed ? options->key :
								NULL);
	store->pool = zm_port_pool_create();
	if (!store->slots || !store->accessed || !store->pass_mutex ||
	    !store->mode_mutex || !store->idle_mutex || !store->key || !store->pool)
		return -ENOMEM;
	store->huge_size = zm_port_pool_huge_size(store->pool);
	err = zm_port_streams_create(store->codecs, options->streams,
				     &store->streams);
	if (err)
		return err;
	return zm_meld_mode_set(store, options->mode);
}

int zm_store_create(const struct zm_store_options *options,
		    struct zm_store **out)
{
	struct zm_store *store;
	int err;

	if (!options_are_valid(options))
		return -EINVAL;
	store = zm_port_table_alloc(sizeof(*store));
	if (!store)
		return -ENOMEM;
	store->slot_count = options->slots;
	store->stops = 1;
	store->verify = options->verify;
	store->check_writes = options->check_writes;
	store->memory_limit = options->memory_limit;
	err = store_fill(store, options);
	if (err) {
		zm_store_destroy(store);
		return err;
	}
	*out = store;
	return 0;
}

#define EMPTIED_PER_BATCH 256

static void store_empty(struct zm_store *store)
{
	u64 index;

	/* Freeing is slow where the kernel checks what is freed. */
	for (index = 0; index < store->slot_count; index++) {
		if (index % EMPTIED_PER_BATCH == 0)
			zm_port_yield();
		zm_content_release(store,
				   zm_slot_content(&store->slots[index]));
	}
}

void zm_store_destroy(struct zm_store *store)
{
	if (!store)
		return;
	if (store->slots)
		store_empty(store);
	if ((store->counters &&
	     zm_counter_read(&store->counters->held_orphaned)) ||
	    zm_load64(&store->blocks.used))
		zm_port_warn("a store ends while a page is on its way");
	zm_backing_detach(store);
	if (store->streams)
		zm_port_streams_destroy(store->streams, zm_share_free);
	if (store->pool)
		zm_port_pool_destroy(store->pool);
	if (store->key)
		zm_fingerprint_key_destroy(store->key);
	if (store->pass_mutex)
		zm_port_mutex_destroy(store->pass_mutex);
	if (store->mode_mutex)
		zm_port_mutex_destroy(store->mode_mutex);
	if (store->idle_mutex)
		zm_port_mutex_destroy(store->idle_mutex);
	zm_port_percpu_destroy(store->counters);
	zm_index_destroy(store->index);
	zm_port_table_free(store->accessed, zm_access_bytes(store));
	zm_port_table_free(store->slots, slots_bytes(store));
	codecs_release(store);
	zm_port_table_free(store, sizeof(*store));
}

/*
 * The index is made when a mode first needs it and kept from then on: writers
 * may be looking at it. Not under the pass's mutex: who changes the mode does
 * not wait for a pass to end.
 */
int zm_meld_mode_set(struct zm_store *store, u32 mode)
{
	struct zm_index *index;
	int err = 0;

	if (mode > ZM_MELD_INLINE)
		return -EINVAL;
	zm_port_mutex_lock(store->mode_mutex);
	if (mode >= ZM_MELD_AUTO && !store->index) {
		index = zm_index_create(store->slot_count);
		if (index)
			zm_publish(&store->index, index);
		else
			err = -ENOMEM;
	}
	if (!err)
		zm_set32(&store->mode, mode);
	zm_port_mutex_unlock(store->mode_mutex);
	return err;
}

/* Pages written while nothing asked for a fingerprint stay without one. */
void zm_store_verify_set(struct zm_store *store, bool verify)
{
	zm_set32(&store->verify, verify);
}

int zm_store_check_writes_set(struct zm_store *store, u32 check_writes)
{
	if (check_writes > ZM_CHECK_WRITES_OFF)
		return -EINVAL;
	zm_set32(&store->check_writes, check_writes);
	return 0;
}

void zm_store_limit_set(struct zm_store *store, u64 bytes)
{
	zm_set64(&store->memory_limit, bytes);
}

void zm_store_peak_reset(struct zm_store *store)
{
	zm_set64(&store->memory_used_max, zm_port_pool_used(store->pool));
}

u64 zm_store_compact(struct zm_store *store)
{
	return zm_port_pool_compact(store->pool);
}

u64 zm_store_compacted(struct zm_store *store)
{
	return zm_port_pool_compacted(store->pool);
}

/*
 * How much more `many` is than `few`. Counters that are read one after the other,
 * while they move, may tell for a moment that it is less.
 */
static u64 above(u64 many, u64 few)
{
	return many > few ? many - few : 0;
}

/* What is lost on one lane before it was seen on another is not less than 0. */
static u64 counter_shown(const u64 *counter)
{
	u64 sum = zm_counter_read(counter);

	return (s64)sum < 0 ? 0 : sum;
}

void zm_store_stats(struct zm_store *store, struct zm_stats *stats)
{
	struct zm_counters *c = store->counters;

	*stats = (struct zm_stats){
		.pages_stored = counter_shown(&c->pages_stored),
		.pages_same = counter_shown(&c->pages_same),
		.pages_raw = counter_shown(&c->pages_raw),
		.pages_shared = counter_shown(&c->pages_shared),
		.pages_backed = counter_shown(&c->pages_backed),
		.shares = counter_shown(&c->shares),
		.bytes_compressed = counter_shown(&c->bytes_compressed),
		.bytes_melded = counter_shown(&c->bytes_melded),
		.memory_used = zm_port_pool_used(store->pool),
		.memory_used_max = zm_load64(&store->memory_used_max),
		.raw_since = counter_shown(&c->raw_since),
		.passes = counter_shown(&c->passes),
		.pass_melded = counter_shown(&c->pass_melded),
		.inline_probes = counter_shown(&c->inline_probes),
		.inline_melded = counter_shown(&c->inline_melded),
		.inline_unchanged = counter_shown(&c->inline_unchanged),
		.inline_collisions = counter_shown(&c->inline_collisions),
		.auto_switches = counter_shown(&c->auto_switches),
		.encode_errors = counter_shown(&c->encode_errors),
		.damaged = counter_shown(&c->damaged),
		.mismatches = counter_shown(&c->mismatches),
		.blocks = zm_load64(&store->blocks.count),
		.blocks_used = zm_load64(&store->blocks.used),
		.inline_active = zm_load32(&store->inline_active),
	};
	stats->pages_melded = above(stats->pages_shared, stats->shares);
	stats->objects = above(stats->pages_stored + stats->shares,
			       stats->pages_same + stats->pages_shared +
			       counter_shown(&c->shares_backed));
	stats->memory_metadata = slots_bytes(store) + sizeof(*store) +
				 zm_port_percpu_bytes(sizeof(*c)) +
				 zm_access_bytes(store) +
				 zm_blocks_bytes(store) +
				 zm_fingerprint_key_bytes() +
				 zm_index_bytes(zm_consume(&store->index)) +
				 stats->shares * sizeof(struct zm_share);
}

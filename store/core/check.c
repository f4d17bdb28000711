// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The walking check: looks at every slot, recomputes every counter, and says in
 * words what is wrong.
 *
 * What is held is told by the slots alone, so each sum over them has to be what
 * the counters say; each share has to have as many slots as it counts; no
 * object may belong to two.
 */
#include "store.h"
#include "text.h"

struct zm_check {
	struct zm_store *store;
	struct zm_text text;
	u64 faults;
	struct zm_counters sum;
	u64 *handles;		/* of objects in slots, and of shares once */
	u64 handle_count;
	u64 *shares;		/* one for each slot that shares */
	u64 share_count;
	u64 room;		/* in each of the two */
	u8 *page;
};

#define FAULT(check, ...)						\
	do {								\
		struct zm_check *c_ = (check);				\
									\
		if (c_->faults++ < 20)					\
			zm_text_add(&c_->text, __VA_ARGS__);		\
	} while (0)

static void check_state(struct zm_check *check, u64 index,
			struct zm_content content)
{
	enum zm_kind kind = zm_state_kind(content.state);
	unsigned long long slot = index;
	u32 size;

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
	size = zm_content_object(content).size;
	if (!size || size > ZM_PAGE_SIZE ||
	    (size >= check->store->huge_size && size != ZM_PAGE_SIZE))
		FAULT(check, "slot %llu: object of %u bytes\n", slot, size);
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
	object = zm_content_object(content);
	check->sum.pages_raw += zm_object_is_raw(object);
	if (kind == ZM_KIND_SHARE) {
		check->sum.pages_shared++;
		check->sum.bytes_melded += object.size;
		if (check->share_count < check->room)
			check->shares[check->share_count++] = content.value;
		return;
	}
	check->sum.bytes_compressed += object.size;
	if (check->handle_count < check->room)
		check->handles[check->handle_count++] = content.value;
}

static void check_content(struct zm_check *check, struct zm_stream *stream,
			  u64 index, struct zm_content content)
{
	struct zm_store *store = check->store;

	if (!zm_state_has_object(content.state))
		return;
	if (zm_object_read(store, stream, zm_content_object(content),
			   check->page)) {
		FAULT(check, "slot %llu: object does not decompress\n",
		      (unsigned long long)index);
		return;
	}
	if (content.state & ZM_STATE_FINGERPRINTED &&
	    zm_fingerprint(store->key, check->page) != content.fingerprint)
		FAULT(check, "slot %llu: page has another fingerprint\n",
		      (unsigned long long)index);
}

static void check_walk(struct zm_check *check, struct zm_stream *stream,
		       u32 level)
{
	struct zm_store *store = check->store;
	struct zm_content content;
	u64 index, faults;

	for (index = 0; index < store->slot_count; index++) {
		if (index % 1024 == 0)
			zm_port_yield();
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
}

/* Each share once: its count against its slots. */
static void check_shares(struct zm_check *check)
{
	struct zm_share *share;
	u64 i, next;

	zm_sort64(check->shares, check->share_count);
	for (i = 0; i < check->share_count; i = next) {
		for (next = i; next < check->share_count &&
		     check->shares[next] == check->shares[i]; next++)
			;
		share = (struct zm_share *)(uintptr_t)check->shares[i];
		if (zm_load32(&share->count) != next - i)
			FAULT(check, "share of %u bytes: counts %u, %llu slots use it\n",
			      share->object.size, zm_load32(&share->count),
			      (unsigned long long)(next - i));
		check->sum.shares++;
			check->sum.bytes_compressed += share->object.size;
		check->sum.bytes_melded -= share->object.size;
		if (check->handle_count < check->room)
			check->handles[check->handle_count++] =
				share->object.handle.value;
	}
}

static void check_handles(struct zm_check *check)
{
	u64 i;

	zm_sort64(check->handles, check->handle_count);
	for (i = 1; i < check->handle_count; i++)
		if (check->handles[i] == check->handles[i - 1])
			FAULT(check, "object %llx belongs to two\n",
			      (unsigned long long)check->handles[i]);
}

static void check_counters(struct zm_check *check)
{
	const struct zm_counters *held = &check->store->counters;
	const struct zm_counters *sum = &check->sum;

#define SAME(name)							\
	do {								\
		u64 held_ = zm_load64(&held->name);			\
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
	SAME(shares);
	SAME(bytes_compressed);
	SAME(bytes_melded);
#undef SAME
}

static int check_run(struct zm_check *check, u32 level)
{
	struct zm_store *store = check->store;
	struct zm_stream *stream;

	stream = zm_port_stream_get(store->streams);
	check_walk(check, stream, level);
	zm_port_stream_put(store->streams, stream);
	if (level >= ZM_CHECK_COUNTS && !check->faults) {
		check_shares(check);
		check_handles(check);
		check_counters(check);
	}
	if (check->faults > 20)
		zm_text_add(&check->text, "... and %llu more\n",
			    (unsigned long long)(check->faults - 20));
	return check->faults ? -EUCLEAN : 0;
}

int zm_store_check(struct zm_store *store, u32 level, char *text,
		   size_t text_size)
{
	struct zm_check check = {
		.store = store,
		.text = { text, text_size, 0 },
		.room = zm_load64(&store->counters.pages_stored) + 1,
	};
	u64 bytes = check.room * sizeof(u64);
	int err = -ENOMEM;

	if (text_size)
		text[0] = '\0';
	if (!zm_port_mutex_trylock(store->pass_mutex))
		return -EBUSY;
	check.page = zm_port_table_alloc(ZM_PAGE_SIZE);
	check.handles = zm_port_table_alloc(bytes);
	check.shares = zm_port_table_alloc(bytes);
	if (check.page && check.handles && check.shares)
		err = check_run(&check, level);
	zm_port_table_free(check.page, ZM_PAGE_SIZE);
	zm_port_table_free(check.handles, bytes);
	zm_port_table_free(check.shares, bytes);
	zm_port_mutex_unlock(store->pass_mutex);
	return err;
}

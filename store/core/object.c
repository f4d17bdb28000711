// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Objects and shares: making them, reading them, letting go of them.
 *
 * Invariants:
 *   - an object belongs to one slot or to one share;
 *   - a share's object never changes; the share goes with its last reference;
 *   - the counters of what is held move with these functions and nowhere else.
 */
#include "store.h"

void zm_fail(struct zm_store *store, enum zm_reason reason)
{
	zm_count(&store->counters.failures[reason]);
}

/* Compresses into the stream's buffer; raw pages point at the page itself. */
static u32 pack(struct zm_store *store, struct zm_stream *stream,
		const void *page, const void **bytes)
{
	size_t size = 2 * ZM_PAGE_SIZE;
	int err;

	err = store->codec->compress(stream->ctx, &store->params, page,
				     ZM_PAGE_SIZE, stream->packed, &size);
	if (err || size >= store->huge_size) {
		*bytes = page;
		return ZM_PAGE_SIZE;
	}
	*bytes = stream->packed;
	return (u32)size;
}

/*
 * Stores a page's bytes in an object of its own, which nobody knows yet.
 * -ENOMEM, with its reason counted, leaves nothing behind.
 */
int zm_object_create(struct zm_store *store, struct zm_stream *stream,
		     const void *page, struct zm_object *object)
{
	u64 limit = zm_load64(&store->memory_limit);
	const void *bytes;
	u64 used;

	object->size = pack(store, stream, page, &bytes);
	if (zm_port_pool_alloc(store->pool, object->size, &object->handle)) {
		zm_fail(store, ZM_REASON_NO_MEMORY);
		return -ENOMEM;
	}
	used = zm_port_pool_used(store->pool);
	if (limit && used > limit) {
		zm_port_pool_free(store->pool, object->handle);
		zm_fail(store, ZM_REASON_LIMIT);
		return -ENOMEM;
	}
	zm_max64(&store->memory_used_max, used);
	zm_port_pool_write(store->pool, object->handle, bytes, object->size);
	if (zm_object_is_raw(*object))
		zm_count(&store->counters.raw_since);
	zm_add64(&store->counters.bytes_compressed, object->size);
	return 0;
}

/* pre: the caller holds the slot lock, or a reference, that keeps the object. */
int zm_object_read(struct zm_store *store, struct zm_stream *stream,
		   struct zm_object object, void *page)
{
	const void *bytes;
	int err = 0;

	bytes = zm_port_pool_read_begin(store->pool, object.handle,
					object.size, stream->packed);
	if (zm_object_is_raw(object))
		memcpy(page, bytes, ZM_PAGE_SIZE);
	else
		err = store->codec->decompress(stream->ctx, &store->params,
					       bytes, object.size, page,
					       ZM_PAGE_SIZE);
	zm_port_pool_read_end(store->pool, object.handle, bytes);
	return err;
}

/*
 * Whether the object's stored bytes are these. Codecs are deterministic, so
 * stored bytes of one store are equal just where their pages are.
 * pre: as zm_object_read(); bytes is not in the stream's first page of packed.
 */
bool zm_object_equals(struct zm_store *store, struct zm_stream *stream,
		      struct zm_object object, const void *bytes, u32 size)
{
	const void *own;
	bool equal;

	if (object.size != size)
		return false;
	own = zm_port_pool_read_begin(store->pool, object.handle, size,
				      stream->packed);
	equal = memcmp(own, bytes, size) == 0;
	zm_port_pool_read_end(store->pool, object.handle, own);
	return equal;
}

static void object_free(struct zm_store *store, struct zm_object object)
{
	zm_add64(&store->counters.bytes_compressed, -(u64)object.size);
	zm_port_pool_free(store->pool, object.handle);
}

struct zm_share *zm_share_create(void)
{
	return zm_port_small_alloc(sizeof(struct zm_share));
}

void zm_share_free(void *share)
{
	zm_port_small_free(share, sizeof(struct zm_share));
}

/* Lets go of one reference. True where it was the last: the object is gone. */
bool zm_share_put(struct zm_store *store, struct zm_share *share)
{
	if (!zm_put_test32(&share->count))
		return false;
	zm_uncount(&store->counters.shares);
	/* What the last slot took off when it could not know it was last. */
	zm_add64(&store->counters.bytes_melded, share->object.size);
	object_free(store, share->object);
	zm_share_free(share);
	return true;
}

/*
 * Turns a slot's own object into a share of one, the slot's.
 * pre: slot locked, holds an object; share is fresh.
 */
void zm_slot_make_share(struct zm_store *store, struct zm_slot *slot,
			struct zm_share *share)
{
	struct zm_content content = zm_slot_content(slot);
	u32 kept = content.state & ZM_STATE_FINGERPRINTED;

	share->object = zm_content_object(content);
	share->count = 1;
	content.value = (u64)(uintptr_t)share;
	content.state = zm_state_make(ZM_KIND_SHARE, 0) | kept;
	zm_slot_set(slot, content);
	zm_count(&store->counters.shares);
	zm_count(&store->counters.pages_shared);
}

/*
 * One more slot's worth of the share.
 * pre: the caller holds a reference, or the lock of a slot that does.
 */
struct zm_content zm_share_take(struct zm_store *store, struct zm_share *share,
				u32 fingerprint)
{
	zm_get32(&share->count);
	zm_count(&store->counters.pages_shared);
	zm_add64(&store->counters.bytes_melded, share->object.size);
	return (struct zm_content){
		.value = (u64)(uintptr_t)share,
		.state = zm_state_make(ZM_KIND_SHARE, 0) |
			 ZM_STATE_FINGERPRINTED,
		.fingerprint = fingerprint,
	};
}

/*
 * Frees what a slot held; the slot has been given something else. True where
 * an object went with it. Atomic.
 */
bool zm_content_release(struct zm_store *store, struct zm_content content)
{
	struct zm_share *share;

	switch (zm_state_kind(content.state)) {
	case ZM_KIND_EMPTY:
	case ZM_KIND_SAME:
		return false;
	case ZM_KIND_OBJECT:
		object_free(store, zm_content_object(content));
		return true;
	case ZM_KIND_SHARE:
		share = zm_content_share(content);
		zm_uncount(&store->counters.pages_shared);
		zm_add64(&store->counters.bytes_melded,
			 -(u64)share->object.size);
		return zm_share_put(store, share);
	}
	zm_port_broken("a slot of unknown kind");
	return false;
}

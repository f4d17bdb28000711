// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Objects: making them of pages, making pages of them, comparing them, and
 * letting go of what slots hold.
 *
 * Invariants:
 *   - an object belongs to one slot or to one share;
 *   - an object of a slot's own is looked at under the slot's lock; a share's
 *     under the share's, or pinned where it is decompressed: neither its slots
 *     nor who frees one of them are kept waiting.
 *
 * Its place in the life of a page: "stored" and "let go" in store.h.
 */
#include "store.h"

/* Compresses into the stream's buffer. ZM_PAGE_SIZE: it stays raw. */
static u32 page_encode(struct zm_store *store, struct zm_stream *stream,
		       u32 priority, const void *page)
{
	const struct zm_codec_choice *codec = &store->codecs[priority];
	size_t size = 2 * ZM_PAGE_SIZE;
	int err;

	err = codec->ops->compress(stream->ctx[priority], &codec->params, page,
				   ZM_PAGE_SIZE, stream->packed, &size);
	return err || size >= store->huge_size ? ZM_PAGE_SIZE : (u32)size;
}

static bool encoding_is_checked(const struct zm_store *store, u32 priority)
{
	switch (zm_load32(&store->check_writes)) {
	case ZM_CHECK_WRITES_ON:
		return true;
	case ZM_CHECK_WRITES_OFF:
		return false;
	default:
		return priority || store->codecs[priority].ops->check_writes;
	}
}

/* Whether what was encoded, in the stream's buffer, decodes to the page. */
static bool encoding_gives(struct zm_store *store, struct zm_stream *stream,
			   u32 priority, u32 size, const void *page)
{
	/* Encoded bytes are fewer than a page: the second page is free. */
	u8 *decoded = stream->packed + ZM_PAGE_SIZE;

	return !zm_bytes_unpack(store, stream, priority, stream->packed, size,
				decoded) &&
	       zm_equal(decoded, page, ZM_PAGE_SIZE);
}

/*
 * Makes the bytes that are to be stored for a page: encoded, or the page itself
 * where it does not compress. Returns their number.
 *
 * Where encodings are checked, one that does not decode to the page is not used.
 * The page's owner may have changed it meanwhile, so it is encoded once more,
 * from a copy: what that does not give back is the codec's fault. The page stays
 * raw then.
 */
u32 zm_page_pack(struct zm_store *store, struct zm_stream *stream,
		 u32 priority, const void *page, const void **bytes)
{
	bool checked = encoding_is_checked(store, priority);
	u32 size;

	for (;;) {
		size = page_encode(store, stream, priority, page);
		if (!checked || size == ZM_PAGE_SIZE ||
		    encoding_gives(store, stream, priority, size, page))
			break;
		if (page == stream->copy || page == stream->page) {
			zm_count(&store->counters->encode_errors);
			zm_port_encode_error(store->codecs[priority].ops->name);
			size = ZM_PAGE_SIZE;
			break;
		}
		memcpy(stream->copy, page, ZM_PAGE_SIZE);
		page = stream->copy;
	}
	*bytes = size == ZM_PAGE_SIZE ? page : stream->packed;
	return size;
}

/*
 * Room for an object. -EAGAIN: the stream's room is to be waited for first; -ENOMEM,
 * where the stream is the caller's own: there is none.
 */
static int object_place(struct zm_store *store, struct zm_stream *stream,
			struct zm_object *object)
{
	struct zm_room *room = stream->room;

	if (room && room->handle.value && room->size == object->size) {
		object->handle = room->handle;
		room->handle.value = 0;
		return 0;
	}
	if (!zm_port_pool_alloc(store->pool, object->size, !room, stream->near,
				&object->handle))
		return 0;
	if (!room)
		return -ENOMEM;
	if (!room->handle.value)
		room->size = object->size;
	return -EAGAIN;
}

/*
 * Waits for room; a second time, since the page has changed meanwhile, for a page's,
 * which holds whatever it will be. -ENOMEM: there is none.
 * pre: no stream is borrowed.
 */
int zm_room_wait(struct zm_store *store, const void *near,
		 struct zm_room *room)
{
	if (room->handle.value) {
		zm_room_release(store, room);
		room->size = ZM_PAGE_SIZE;
	}
	return zm_port_pool_alloc(store->pool, room->size, true, near,
				  &room->handle);
}

void zm_room_release(struct zm_store *store, struct zm_room *room)
{
	if (room->handle.value)
		zm_port_pool_free(store->pool, room->handle);
	room->handle.value = 0;
}

/*
 * Puts bytes into an object, whose size and priority are given. Errors as above, or
 * -ENOMEM: more than limit bytes (0: any) would be used; nothing is left behind.
 */
int zm_object_store(struct zm_store *store, struct zm_stream *stream,
		    const void *bytes, u64 limit, struct zm_object *object)
{
	u64 used;
	int err;

	err = object_place(store, stream, object);
	if (err)
		return err;
	used = zm_port_pool_used(store->pool);
	if (limit && used > limit) {
		zm_port_pool_free(store->pool, object->handle);
		return -ENOMEM;
	}
	zm_max64(&store->memory_used_max, used);
	zm_port_pool_write(store->pool, object->handle, bytes, object->size);
	zm_counter_add(&store->counters->bytes_compressed, object->size);
	return 0;
}

/* Stores a page in an object of its own, which nobody knows yet. */
int zm_object_create(struct zm_store *store, struct zm_stream *stream,
		     const void *page, struct zm_object *object)
{
	const void *bytes;
	int err;

	object->priority = 0;
	object->size = ZM_PAGE_SIZE;
	bytes = page;
	if (!zm_room_is_whole(stream->room))
		object->size = zm_page_pack(store, stream, 0, page, &bytes);
	err = zm_object_store(store, stream, bytes,
			      zm_load64(&store->memory_limit), object);
	if (!err && zm_object_is_raw(*object))
		zm_count(&store->counters->raw_since);
	return err;
}

void zm_object_free(struct zm_store *store, struct zm_object object)
{
	zm_counter_add(&store->counters->bytes_compressed, -(u64)object.size);
	zm_port_pool_free(store->pool, object.handle);
}

/*
 * Makes the page of stored bytes. They may be the page where they are raw.
 * -EBADMSG: they are damaged.
 */
int zm_bytes_unpack(struct zm_store *store, struct zm_stream *stream,
		    u32 priority, const void *bytes, u32 size, void *page)
{
	const struct zm_codec_choice *codec = &store->codecs[priority];

	if (size == ZM_PAGE_SIZE) {
		if (bytes != page)
			memcpy(page, bytes, ZM_PAGE_SIZE);
		return 0;
	}
	return codec->ops->decompress(stream->ctx[priority], &codec->params,
				      bytes, size, page, ZM_PAGE_SIZE);
}

/*
 * Makes an object's page. -EBADMSG: it is damaged.
 * pre: the object stays: it is pinned, or its slot is locked.
 */
int zm_object_read(struct zm_store *store, struct zm_stream *stream,
		   struct zm_object object, void *page)
{
	const void *bytes;
	int err;

	bytes = zm_port_pool_read_begin(store->pool, object.handle,
					object.size, stream->packed);
	err = zm_bytes_unpack(store, stream, object.priority, bytes,
			      object.size, page);
	zm_port_pool_read_end(store->pool, object.handle, bytes, object.size);
	return err;
}

/*
 * Copies stored bytes; where the pool has them in pieces, it puts them together
 * there. pre: what keeps the object is locked.
 */
void zm_object_copy(struct zm_store *store, struct zm_object object, void *to,
		    struct zm_copy *copy)
{
	const void *bytes;

	bytes = zm_port_pool_read_begin(store->pool, object.handle,
					object.size, to);
	/* A pool may have put them together there, behind words of its own. */
	if (bytes != to)
		memmove(to, bytes, object.size);
	zm_port_pool_read_end(store->pool, object.handle, bytes, object.size);
	*copy = (struct zm_copy){ to, object.size, object.priority };
}

/*
 * Copies the stored bytes of a slot's object, at most a page. False
 * where they are not in the pool. pre: the slot is locked.
 */
bool zm_content_copy(struct zm_store *store, struct zm_content content,
		     void *to, struct zm_copy *copy)
{
	struct zm_share *share;
	bool here;

	if (zm_state_kind(content.state) == ZM_KIND_OBJECT) {
		zm_object_copy(store, zm_content_object(content), to, copy);
		return true;
	}
	share = zm_content_share(content);
	zm_share_lock(share);
	here = zm_share_is_here(share);
	if (here)
		zm_object_copy(store, zm_share_object(share), to, copy);
	zm_share_unlock(share);
	return here;
}

/*
 * Whether an object is this page; a damaged one is none.
 * pre: the object stays: it is pinned, or its slot is locked.
 */
bool zm_object_is_page(struct zm_store *store, struct zm_stream *stream,
		       struct zm_object object, const void *page)
{
	const void *bytes, *made;
	bool sound = true;

	/* The second page of packed: the first is for what is made of them. */
	bytes = zm_port_pool_read_begin(store->pool, object.handle, object.size,
					stream->packed + ZM_PAGE_SIZE);
	made = bytes;
	if (!zm_object_is_raw(object)) {
		made = stream->packed;
		sound = !zm_bytes_unpack(store, stream, object.priority, bytes,
					 object.size, stream->packed);
	}
	sound = sound && zm_equal(made, page, ZM_PAGE_SIZE);
	zm_port_pool_read_end(store->pool, object.handle, bytes, object.size);
	return sound;
}

/*
 * Makes the page of a slot's object, for the check, which nobody waits for.
 * ZM_BACKED: it is not in the pool; -EBADMSG: it is damaged.
 * pre: the slot is locked.
 */
int zm_content_read(struct zm_store *store, struct zm_stream *stream,
		    struct zm_content content, void *page)
{
	struct zm_object object;
	struct zm_share *share;
	int err;

	if (zm_state_kind(content.state) == ZM_KIND_OBJECT)
		return zm_object_read(store, stream,
				      zm_content_object(content), page);
	share = zm_content_share(content);
	if (!zm_share_pin(share, &object))
		return ZM_BACKED;
	err = zm_object_read(store, stream, object, page);
	zm_share_unpin(store, share);
	return err;
}

/*
 * Codecs are deterministic, so bytes that one codec made are equal just where
 * their pages are. Raw bytes are the page, whichever codec gave up on it.
 */
static enum zm_look object_compare(struct zm_store *store,
				   struct zm_stream *stream,
				   struct zm_object object,
				   const struct zm_copy *copy)
{
	bool both_raw = zm_object_is_raw(object) && copy->size == ZM_PAGE_SIZE;
	const void *own;
	bool equal;

	if (object.priority != copy->priority && !both_raw)
		return ZM_LOOK_OTHER_CODEC;
	if (object.size != copy->size)
		return ZM_LOOK_DIFFERS;
	own = zm_port_pool_read_begin(store->pool, object.handle, object.size,
				      stream->packed);
	equal = zm_equal(own, copy->bytes, object.size);
	zm_port_pool_read_end(store->pool, object.handle, own, object.size);
	return equal ? ZM_LOOK_EQUAL : ZM_LOOK_DIFFERS;
}

/*
 * Whether a slot's object has the stored bytes of the copy.
 * pre: the slot is locked; the copy is not in the stream's first page of packed.
 */
enum zm_look zm_content_compare(struct zm_store *store,
				struct zm_stream *stream,
				struct zm_content content,
				const struct zm_copy *copy)
{
	enum zm_look look = ZM_LOOK_BACKED;
	struct zm_share *share;

	if (zm_state_kind(content.state) == ZM_KIND_OBJECT)
		return object_compare(store, stream, zm_content_object(content),
				      copy);
	share = zm_content_share(content);
	zm_share_lock(share);
	if (zm_share_is_here(share))
		look = object_compare(store, stream, zm_share_object(share),
				      copy);
	zm_share_unlock(share);
	return look;
}

/*
 * Asks for the object that a slot names, which will be needed soon. A word that
 * is its user's (of a same-filled page) is no address to ask for: what of the
 * kernel's is in a cache, and where it is, could be told by it. So the kind has
 * to be known, and that takes the lock.
 */
void zm_slot_prefetch(struct zm_store *store, struct zm_slot *slot)
{
	struct zm_content content;

	if (!zm_state_has_object(zm_load32(&slot->state)) ||
	    !zm_slot_trylock(slot))
		return;
	content = zm_slot_content(slot);
	zm_slot_unlock(slot);
	if (zm_state_kind(content.state) == ZM_KIND_OBJECT)
		zm_port_pool_prefetch(store->pool,
				      zm_content_object(content).handle);
	else if (zm_state_kind(content.state) == ZM_KIND_SHARE)
		zm_prefetch(zm_content_share(content));
}

/*
 * Frees what a slot held; the slot has been given something else. Returns the
 * bytes that went from the pool. Atomic.
 */
u32 zm_content_release(struct zm_store *store, struct zm_content content)
{
	struct zm_object object;

	switch (zm_state_kind(content.state)) {
	case ZM_KIND_EMPTY:
	case ZM_KIND_SAME:
		return 0;
	case ZM_KIND_OBJECT:
		object = zm_content_object(content);
		zm_object_free(store, object);
		return object.size;
	case ZM_KIND_SHARE:
		return zm_share_release(store, zm_content_share(content));
	}
	zm_port_warn("a slot of unknown kind");
	return 0;
}

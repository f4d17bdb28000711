// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Pages in, pages out.
 *
 * A write makes the new content first and then swaps it with the old under the
 * slot's lock, so a failure changes nothing and a reader sees one or the other.
 * The old content is released after the lock is gone.
 *
 * A page may change while it is written, or while it is read into: its owner can
 * have it mapped. So where a fingerprint is taken or checked, that is done on a
 * page of our own. What is fingerprinted, compared, compressed or kept raw are
 * then the same bytes, whichever they were.
 *
 * A stream is let go of before memory is waited for, since others read with it, and
 * a write that has to wait begins anew with the room that it waited for.
 *
 * Its place in the life of a page: "written", "read" and "let go" in store.h.
 */
#include "store.h"

struct held {
	u64 stored;
	u64 same;
	u64 raw;
};

static struct held held_by(struct zm_content content)
{
	enum zm_kind kind = zm_state_kind(content.state);

	return (struct held){
		.stored = kind != ZM_KIND_EMPTY,
		.same = kind == ZM_KIND_SAME,
		/* Of shares, share.c counts it. */
		.raw = kind == ZM_KIND_OBJECT &&
		       zm_object_is_raw(zm_content_object(content)),
	};
}

/* Most writes replace like by like and touch no counter here. */
static void count_change(u64 *counter, u64 old, u64 new)
{
	if (old != new)
		zm_counter_add(counter, new - old);
}

/*
 * Gives the slot this content and lets go of what it held. The counters of what
 * slots hold move under the lock, so that none goes down before it went up.
 * Atomic.
 */
void zm_slot_replace(struct zm_store *store, u64 index,
		     struct zm_content content)
{
	struct zm_counters *counters = store->counters;
	struct zm_slot *slot = &store->slots[index];
	struct held before, after = held_by(content);
	struct zm_content old;

	zm_slot_lock(slot);
	old = zm_slot_content(slot);
	before = held_by(old);
	zm_slot_set(slot, content);
	count_change(&counters->pages_stored, before.stored, after.stored);
	count_change(&counters->pages_same, before.same, after.same);
	count_change(&counters->pages_raw, before.raw, after.raw);
	zm_slot_unlock(slot);
	zm_content_release(store, old);
}

static int write_unique(struct zm_store *store, struct zm_stream *stream,
			u64 index, const void *page, u32 kept, u32 fingerprint)
{
	struct zm_object object;
	int err;

	err = zm_object_create(store, stream, page, &object);
	if (err)
		return err;
	zm_slot_replace(store, index, (struct zm_content){
		.value = object.handle.value,
		.state = zm_state_of_object(object) | kept,
		.fingerprint = fingerprint,
	});
	return 0;
}

/* A page that is neither fingerprinted nor looked for, so that none is copied. */
static int write_plain(struct zm_store *store, u64 index, const void *page,
		       struct zm_room *room)
{
	struct zm_stream *stream;
	int err;

	zm_slot_prefetch(store, &store->slots[index]);
	stream = zm_port_stream_get(store->streams);
	stream->near = page;
	stream->room = room;
	err = write_unique(store, stream, index, page, 0, 0);
	zm_port_stream_put(store->streams, stream);
	return err;
}

static int write_fingerprinted(struct zm_store *store, u64 index,
			       const void *page, u32 mode,
			       struct zm_room *room)
{
	struct zm_stream *stream = zm_port_stream_get(store->streams);
	u32 fingerprint;
	int err = 0;

	stream->near = page;
	stream->room = room;
	memcpy(stream->copy, page, ZM_PAGE_SIZE);
	page = stream->copy;
	fingerprint = zm_fingerprint(store->key, page);
	zm_slot_prefetch(store, &store->slots[index]);
	/* Once a write: with room of its own it has looked for its twin before. */
	if (mode < ZM_MELD_AUTO || room->handle.value ||
	    !zm_inline_meld(store, stream, index, page, fingerprint)) {
		err = write_unique(store, stream, index, page,
				   ZM_STATE_FINGERPRINTED, fingerprint);
		if (!err && mode >= ZM_MELD_AUTO)
			zm_inline_written(store, index, fingerprint);
	}
	zm_port_stream_put(store->streams, stream);
	return err;
}

int zm_page_write(struct zm_store *store, u64 index, const void *page)
{
	u32 mode = zm_load32(&store->mode);
	struct zm_room room = { { 0 }, 0 };
	u64 word;
	int err;

	if (index >= store->slot_count)
		return -EINVAL;
	zm_prefetch(&store->slots[index]);
	zm_access_note(store, index);
	if (zm_page_fill(page, &word)) {
		zm_slot_replace(store, index, (struct zm_content){
			.value = word,
			.state = zm_state_make(ZM_KIND_SAME),
		});
		return 0;
	}
	do {
		err = mode == ZM_MELD_OFF && !zm_load32(&store->verify) ?
		      write_plain(store, index, page, &room) :
		      write_fingerprinted(store, index, page, mode, &room);
	} while (err == -EAGAIN && !(err = zm_room_wait(store, page, &room)));
	zm_room_release(store, &room);
	return err;
}

static void fill_page(void *page, u64 word)
{
	u8 *bytes = page;
	u64 i;

	if (!word) {
		memset(page, 0, ZM_PAGE_SIZE);
		return;
	}
	for (i = 0; i < ZM_PAGE_SIZE; i += sizeof(word))
		zm_put64(bytes + i, word);
}

/* -EBADMSG, which is counted: the page is not the one that was written. */
int zm_page_verify(struct zm_store *store, struct zm_content content,
		   const void *page)
{
	if (!(content.state & ZM_STATE_FINGERPRINTED) ||
	    zm_fingerprint(store->key, page) == content.fingerprint)
		return 0;
	zm_count(&store->counters->mismatches);
	return -EBADMSG;
}

/* Hands a page of our own out if it is the one that was written. */
int zm_page_hand_out(struct zm_store *store, struct zm_content content,
		     const void *own, void *page)
{
	int err = 0;

	if (zm_load32(&store->verify))
		err = zm_page_verify(store, content, own);
	if (!err)
		memcpy(page, own, ZM_PAGE_SIZE);
	return err;
}

/* What a read has seen of a slot. */
struct seen {
	struct zm_content content;
	struct zm_share *pinned;	/* its share, where that is in the pool */
	struct zm_object object;	/* of the share */
};

/*
 * Takes a look at a slot. An object of its own is decompressed to `page`, a share's
 * is pinned for the caller: many may read one, and none of its slots is locked
 * meanwhile. Without a stream it is only seen that there is one. A share that
 * has left the pool never comes back to it: ZM_BACKED for who can read its
 * block, -EREMOTE for who cannot.
 */
static int slot_look(struct zm_store *store, struct zm_slot *slot,
		     struct zm_stream *stream, void *page, struct seen *seen,
		     struct zm_backed *backed)
{
	struct zm_share *share;
	int ret = 0;

	zm_slot_lock(slot);
	zm_slot_accessed(slot);
	seen->content = zm_slot_content(slot);
	seen->pinned = NULL;
	if (!stream || !zm_state_has_object(seen->content.state))
		goto unlock;
	if (zm_state_kind(seen->content.state) == ZM_KIND_OBJECT) {
		ret = zm_object_read(store, stream,
				     zm_content_object(seen->content), page);
		goto unlock;
	}
	share = zm_content_share(seen->content);
	zm_share_accessed(share);
	if (zm_share_pin(share, &seen->object)) {
		seen->pinned = share;
	} else if (backed) {
		zm_backed_hold(store, seen->content, backed);
		ret = ZM_BACKED;
	} else {
		ret = -EREMOTE;
	}
unlock:
	zm_slot_unlock(slot);
	return ret;
}

/*
 * Reads what has an object: into a page of our own where it is checked, since the
 * owner of `page` may change that meanwhile. A stream is
 * borrowed before the lock, so a slot that looked empty and is not any more is looked
 * at again.
 */
static int read_slot(struct zm_store *store, struct zm_slot *slot, void *page,
		     struct zm_content *content, struct zm_backed *backed)
{
	bool has_object = zm_state_has_object(zm_load32(&slot->state));
	bool apart = zm_load32(&store->verify);
	struct zm_stream *stream = NULL;
	struct seen seen;
	void *to = page;
	int ret;

	for (;;) {
		if (has_object) {
			stream = zm_port_stream_get(store->streams);
			if (apart)
				to = stream->page;
		}
		ret = slot_look(store, slot, stream, to, &seen, backed);
		has_object = zm_state_has_object(seen.content.state);
		if (stream || !has_object)
			break;
	}
	*content = seen.content;
	if (seen.pinned) {
		ret = zm_object_read(store, stream, seen.object, to);
		zm_share_unpin(store, seen.pinned);
	}
	if (ret == -EBADMSG)
		zm_count(&store->counters->damaged);
	else if (to != page && has_object && !ret)
		ret = zm_page_hand_out(store, seen.content, to, page);
	if (stream)
		zm_port_stream_put(store->streams, stream);
	return ret;
}

static int page_read(struct zm_store *store, u64 index, void *page,
		     struct zm_backed *backed)
{
	struct zm_content content;
	int ret;

	if (index >= store->slot_count)
		return -EINVAL;
	zm_access_note(store, index);
	ret = read_slot(store, &store->slots[index], page, &content, backed);
	if (ret)
		return ret;
	if (!zm_state_has_object(content.state))
		fill_page(page, zm_state_kind(content.state) == ZM_KIND_SAME ?
				content.value : 0);
	return 0;
}

int zm_page_read(struct zm_store *store, u64 index, void *page)
{
	return page_read(store, index, page, NULL);
}

int zm_page_read_begin(struct zm_store *store, u64 index, void *page,
		       struct zm_backed *backed)
{
	return page_read(store, index, page, backed);
}

void zm_page_discard(struct zm_store *store, u64 index)
{
	if (index >= store->slot_count)
		return;
	zm_slot_replace(store, index, (struct zm_content){
		.state = zm_state_make(ZM_KIND_EMPTY),
	});
}

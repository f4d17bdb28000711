// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Writeback: pages on their way to a block of the backing device and back. The
 * store says which bytes and which block, its caller does the I/O.
 *
 * What goes to a block is a share, if only of one slot: the writer holds it
 * while the I/O runs, so it is still the same share when the writer comes back,
 * whatever became of its slots meanwhile (overwritten, discarded, melded,
 * recompressed), and all that share it move at once. A reader of a block holds
 * the share just so: the block is not used anew before the reader has it.
 *
 * Invariants:
 *   - a share is written by one writer at a time (ZM_SHARE_WRITING);
 *   - the object stays in the pool until the block is known to be written;
 *   - what a block holds, its size and its codec, is what was copied for the
 *     writer, though the object may have been recompressed since.
 *
 * Locking: slot, share, blocks; the copy is made under the share's lock, and
 * decompressed after all locks are gone.
 *
 * Its place in the life of a page: "sent away" and "read" in store.h.
 */
#include "store.h"

/* -- Out -------------------------------------------------------------------- */

/* The share of a slot that is picked, made if there is none, or NULL. */
static struct zm_share *slot_picked_share(struct zm_store *store,
					  struct zm_stream *stream,
					  struct zm_slot *slot, u32 which)
{
	struct zm_content content = zm_slot_content(slot);

	if (!zm_slot_is_picked(content, which))
		return NULL;
	if (zm_state_kind(content.state) == ZM_KIND_OBJECT) {
		zm_slot_make_share(store, slot, stream->spare);
		stream->spare = NULL;
		content = zm_slot_content(slot);
	}
	return zm_content_share(content);
}

/*
 * Copies the slot's stored bytes to the stream and holds their share for the
 * writer. *content: what the slot holds. -ENOENT: it is not what was asked for.
 */
static int write_start(struct zm_store *store, struct zm_stream *stream,
		       u64 index, u32 which, struct zm_writeback *wb,
		       struct zm_content *content)
{
	struct zm_slot *slot = &store->slots[index];
	struct zm_copy copy;
	int err = -ENOENT;

	zm_slot_lock(slot);
	wb->share = slot_picked_share(store, stream, slot, which);
	if (!wb->share)
		goto unlock_slot;
	*content = zm_slot_content(slot);
	zm_share_lock(wb->share);
	if (!zm_share_is_picked(wb->share, which))
		goto unlock_share;
	zm_object_copy(store, zm_share_object(wb->share), stream->packed,
		       &copy);
	wb->size = copy.size;
	wb->priority = copy.priority;
	zm_share_mark(wb->share, 0, ZM_SHARE_WRITING);
	zm_share_hold(store, wb->share);
	err = 0;
unlock_share:
	zm_share_unlock(wb->share);
unlock_slot:
	zm_slot_unlock(slot);
	return err;
}

/* Makes what goes to the block of the copy in the stream. */
static int write_fill(struct zm_store *store, struct zm_stream *stream,
		      struct zm_content content, bool keep_compressed,
		      struct zm_writeback *wb, void *bytes)
{
	if (keep_compressed && wb->size < ZM_PAGE_SIZE) {
		memcpy(bytes, stream->packed, wb->size);
		memset((u8 *)bytes + wb->size, 0, ZM_PAGE_SIZE - wb->size);
		return 0;
	}
	if (zm_bytes_unpack(store, stream, wb->priority, stream->packed,
			    wb->size, bytes)) {
		zm_count(&store->counters->damaged);
		return -EBADMSG;
	}
	wb->size = ZM_PAGE_SIZE;
	wb->priority = 0;
	return zm_page_verify(store, content, bytes);
}

static int write_begin(struct zm_store *store, struct zm_stream *stream,
		       u64 index, u32 which, bool keep_compressed,
		       struct zm_writeback *wb, void *bytes)
{
	struct zm_content content;
	int err;

	err = write_start(store, stream, index, which, wb, &content);
	if (err) {
		zm_block_free(store, wb->block);
		return err;
	}
	zm_count(&store->counters->blocks_in_flight);
	err = write_fill(store, stream, content, keep_compressed, wb, bytes);
	if (err)
		zm_writeback_end(store, wb, false);
	return err;
}

/*
 * A stream with a share to spare, since one may be needed under a lock; memory for
 * it is waited for without a stream. NULL: there is none.
 */
static struct zm_stream *stream_get_with_spare(struct zm_store *store)
{
	struct zm_stream *stream = zm_port_stream_get(store->streams);
	struct zm_share *share;

	if (!stream->spare)
		stream->spare = zm_share_create(false);
	if (stream->spare)
		return stream;
	zm_port_stream_put(store->streams, stream);
	share = zm_share_create(true);
	if (!share)
		return NULL;
	stream = zm_port_stream_get(store->streams);
	if (stream->spare)
		zm_share_free(share);
	else
		stream->spare = share;
	return stream;
}

int zm_writeback_begin(struct zm_store *store, u64 index, u32 which,
		       bool keep_compressed, struct zm_writeback *wb,
		       void *bytes)
{
	struct zm_content hint = { 0 };
	struct zm_stream *stream;
	int err;

	if (index >= store->slot_count)
		return -EINVAL;
	/* Most slots are not what is looked for; they cost no block. */
	hint.state = zm_load32(&store->slots[index].state);
	if (!zm_slot_is_picked(hint, which))
		return -ENOENT;
	err = zm_block_reserve(store, &wb->block);
	if (err)
		return err;
	stream = stream_get_with_spare(store);
	if (!stream) {
		zm_block_free(store, wb->block);
		return -ENOMEM;
	}
	err = write_begin(store, stream, index, which, keep_compressed, wb,
			  bytes);
	zm_port_stream_put(store->streams, stream);
	return err;
}

bool zm_writeback_end(struct zm_store *store, struct zm_writeback *wb,
		      bool written)
{
	struct zm_object block = {
		.handle = { wb->block },
		.size = wb->size,
		.priority = wb->priority,
	};
	struct zm_share *share = wb->share;
	bool moved;

	zm_share_lock(share);
	zm_share_mark(share, ZM_SHARE_WRITING, 0);
	moved = written && share->count && !zm_share_is_pinned(share);
	if (moved)
		zm_share_move(store, share, block);
	else
		zm_block_free(store, wb->block);
	zm_uncount(&store->counters->blocks_in_flight);
	zm_share_put(store, share);
	wb->share = NULL;
	return moved;
}

/* -- And back --------------------------------------------------------------- */

/* Holds a share, and so its block, for a reader. pre: a slot of it is locked. */
void zm_backed_hold(struct zm_store *store, struct zm_content content,
		    struct zm_backed *backed)
{
	struct zm_share *share = zm_content_share(content);

	zm_share_lock(share);
	*backed = (struct zm_backed){
		.block = share->place,
		.size = share->size,
		.priority = zm_state_priority(zm_load32(&share->state)),
		.fingerprint = content.fingerprint,
		.fingerprinted = content.state & ZM_STATE_FINGERPRINTED,
		.apart = share->size != ZM_PAGE_SIZE ||
			 zm_load32(&store->verify),
		.share = share,
	};
	zm_share_hold(store, share);
	zm_share_unlock(share);
}

/*
 * Makes the page of what stood in the block, in a page of our own where it is
 * apart: the owner may change the page that is read into.
 */
static int block_unpack(struct zm_store *store, const struct zm_backed *backed,
			const void *bytes, void *page)
{
	struct zm_content content = {
		.state = backed->fingerprinted ? ZM_STATE_FINGERPRINTED : 0,
		.fingerprint = backed->fingerprint,
	};
	struct zm_stream *stream;
	int err;

	if (!backed->apart)
		return zm_bytes_unpack(store, NULL, 0, bytes, ZM_PAGE_SIZE,
				       page);
	stream = zm_port_stream_get(store->streams);
	err = zm_bytes_unpack(store, stream, backed->priority, bytes,
			      backed->size, stream->page);
	if (err)
		zm_count(&store->counters->damaged);
	else
		err = zm_page_hand_out(store, content, stream->page, page);
	zm_port_stream_put(store->streams, stream);
	return err;
}

int zm_page_read_end(struct zm_store *store, struct zm_backed *backed,
		     const void *bytes, void *page, int io_err)
{
	int err = io_err;

	if (!err)
		err = block_unpack(store, backed, bytes, page);
	zm_share_lock(backed->share);
	zm_share_put(store, backed->share);
	backed->share = NULL;
	return err;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The port: everything the store's core needs from the place it runs in.
 * There are two ports, port/user and port/linux. The core calls nothing else
 * (besides memcpy, memcmp, memset and memmove); `cargo xtask test` proves it by
 * the core's undefined symbols.
 *
 * Each function says whether it may sleep. "Atomic" functions are called under
 * a slot's lock, or with interrupts off, and must not.
 */
#ifndef ZMELD_PORT_H
#define ZMELD_PORT_H

#include <zm_platform.h>
#include <zmeld/codec.h>

/* Names an object in the pool. Never 0 for an object that exists. */
struct zm_handle {
	u64 value;
};

struct zm_pool;
struct zm_room;
struct zm_streams;

/*
 * What one processor works with while it handles one page: borrowed with
 * zm_port_stream_get(), given back with zm_port_stream_put().
 */
struct zm_stream {
	void *ctx[ZM_PRIORITIES];	/* each codec's context, or NULL */
	/* 2 * ZM_PAGE_SIZE: output of compress, copies, what is decoded to check */
	u8 *packed;
	u8 *page;	/* ZM_PAGE_SIZE: scratch for one raw page */
	u8 *copy;	/* ZM_PAGE_SIZE: of the page that is being written */
	void *spare;	/* the core's: a share kept for the next meld */
	u32 probes;	/* the core's: look-ups, and hits, not yet told */
	u32 hits;
	/* The core's: the page being written, whose node its object is for. */
	const void *near;
	struct zm_room *room;	/* the core's: of that page, or NULL */
};

/* -- Metadata memory ------------------------------------------------------ */

/*
 * Zeroed memory for a table of any size, or NULL. May sleep until others gave
 * memory up. pre: no stream of a store's own set is borrowed.
 */
void *zm_port_table_alloc(u64 size);
/* pre: table came from zm_port_table_alloc(size), or is NULL. May sleep. */
void zm_port_table_free(void *table, u64 size);

/*
 * A few dozen bytes, not zeroed, or NULL. wait: as of a table, but starts no I/O;
 * else only what is there, whatever is borrowed.
 */
void *zm_port_small_alloc(size_t size, bool wait);
/* pre: as allocated, or NULL. Atomic. */
void zm_port_small_free(void *small, size_t size);

/* -- Counters -------------------------------------------------------------- */

/*
 * Zeroed counters of 64 bits, `size` bytes of them, in a lane for each processor;
 * what is returned stands for the first. zm_percpu_add() of zm_platform.h adds to
 * the same counter in the lane of whoever runs, so that no two processors write
 * one cache line. NULL: no memory. May sleep.
 */
void *zm_port_percpu_create(size_t size);
/* pre: as created, or NULL. May sleep. */
void zm_port_percpu_destroy(void *lanes);
/* Bytes that lanes of that size take. Atomic. */
u64 zm_port_percpu_bytes(size_t size);
/* The sum of a counter over all lanes, modulo 2^64. Atomic. */
u64 zm_port_percpu_sum(const u64 *counter);

/* -- Pool: where objects are kept ----------------------------------------- */

/* An empty pool, or NULL. May sleep. */
struct zm_pool *zm_port_pool_create(void);
/* pre: every object was freed. May sleep. */
void zm_port_pool_destroy(struct zm_pool *pool);

/*
 * Room for size bytes, 1 <= size <= ZM_PAGE_SIZE, on the memory node of the
 * page at `near` where that can be had; NULL: on any. 0 or -ENOMEM. wait: as
 * of zm_port_small_alloc().
 */
int zm_port_pool_alloc(struct zm_pool *pool, u32 size, bool wait,
		       const void *near, struct zm_handle *handle);
/* pre: handle is allocated and nobody reads it. Atomic. */
void zm_port_pool_free(struct zm_pool *pool, struct zm_handle handle);
/* Fills the object. pre: size as allocated; nobody reads it. Atomic. */
void zm_port_pool_write(struct zm_pool *pool, struct zm_handle handle,
			const void *bytes, u32 size);
/*
 * The object's bytes, valid until zm_port_pool_read_end(): in place, or copied
 * to `copy` (at least size bytes) where the pool keeps them in pieces. A
 * context holds one object at a time and does not sleep meanwhile. Atomic.
 */
const void *zm_port_pool_read_begin(struct zm_pool *pool,
				    struct zm_handle handle, u32 size,
				    void *copy);
/* pre: bytes and size are those of the begin. Atomic. */
void zm_port_pool_read_end(struct zm_pool *pool, struct zm_handle handle,
			   const void *bytes, u32 size);
/*
 * A hint that the object will be read soon. The handle may be any number, even of an
 * object long gone. Atomic.
 */
void zm_port_pool_prefetch(struct zm_pool *pool, struct zm_handle handle);
/* Bytes of memory the pool holds, in whole pages. Atomic. */
u64 zm_port_pool_used(struct zm_pool *pool);
/* Packs objects more closely; the bytes given back. May sleep. */
u64 zm_port_pool_compact(struct zm_pool *pool);
/*
 * Bytes that packing gave back since the pool was made, whoever asked for it:
 * in the kernel reclaim does so, too. Atomic.
 */
u64 zm_port_pool_compacted(struct zm_pool *pool);
/* Objects of this size and above take a whole page: keep those raw. Atomic. */
u32 zm_port_pool_huge_size(struct zm_pool *pool);
/*
 * A number for the size class that an object of that size falls into: objects
 * of one class take the same memory, those of a class with a lower number less.
 * 1 <= size <= ZM_PAGE_SIZE. Atomic.
 */
u32 zm_port_pool_class(struct zm_pool *pool, u32 size);

/* -- Codec streams -------------------------------------------------------- */

/*
 * Streams for `count` contexts at once (0: one for each processor). Each has a
 * context of every codec in choices[ZM_PRIORITIES], so that it reads any
 * object. *streams or -ENOMEM. choices outlive them. May sleep.
 *
 * A store has one such set, from which requests borrow for a page at a time, and
 * give back before they wait for memory; what runs for long (a pass, a check,
 * recompression) makes a set of one for itself and keeps no processor waiting.
 */
int zm_port_streams_create(const struct zm_codec_choice *choices, u32 count,
			   struct zm_streams **streams);
/*
 * pre: none is borrowed. Hands each stream's spare to `release` first. May
 * sleep.
 */
void zm_port_streams_destroy(struct zm_streams *streams,
			     void (*release)(void *spare));
/* Waits for a free stream; never fails. May sleep while waiting. */
struct zm_stream *zm_port_stream_get(struct zm_streams *streams);
void zm_port_stream_put(struct zm_streams *streams, struct zm_stream *stream);

/* -- The pass's lock, time, randomness, words ------------------------------ */

struct zm_mutex;
/* NULL when there is no memory. May sleep. */
struct zm_mutex *zm_port_mutex_create(void);
void zm_port_mutex_destroy(struct zm_mutex *mutex);
/* False where somebody holds it. */
bool zm_port_mutex_trylock(struct zm_mutex *mutex);
/* May sleep. */
void zm_port_mutex_lock(struct zm_mutex *mutex);
void zm_port_mutex_unlock(struct zm_mutex *mutex);
/* Where locks are checked: somebody holds it, in the kernel the caller. */
void zm_port_mutex_assert_held(struct zm_mutex *mutex);

/* Lets others run during long work; called with no lock held. May sleep. */
void zm_port_yield(void);
/*
 * Whether whoever waits for long work is to end: in the kernel, by a signal, or the
 * machine is about to sleep. Atomic.
 */
bool zm_port_interrupted(void);
/* Monotonic time in nanoseconds. Atomic. */
u64 zm_port_time_ns(void);
/*
 * The same time in whole seconds, as of the last tick of the clock: cheap enough
 * to be asked for each page. Atomic.
 */
u32 zm_port_time_s(void);
/* Unpredictable bytes. May sleep. */
void zm_port_random(void *bytes, size_t size);
/* As snprintf, but returns the characters written, without the NUL. Atomic. */
int zm_port_print(char *text, size_t size, const char *format, ...)
	zm_printf_like(3, 4);
/*
 * A codec encoded a page to bytes that do not give it back; they are not used.
 * The kernel warns, at a limited rate; user space has the counter. Atomic.
 */
void zm_port_encode_error(const char *codec);
/*
 * A broken invariant: user space says so and aborts; the kernel warns once
 * and the caller fails the request. Atomic.
 */
void zm_port_warn(const char *what);

#endif /* ZMELD_PORT_H */

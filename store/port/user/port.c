// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The port's small duties in user space: memory, codec streams, the pass's
 * lock, time. The pool is in pool.c, the codecs are in codec*.c.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include <zmeld/port.h>

#include "fault.h"

/* -- Faults on demand ------------------------------------------------------ */

static u64 fault_countdown;
static u64 fault_asked;

void zm_fault_set(u64 nth)
{
	zm_set64(&fault_asked, 0);
	zm_set64(&fault_countdown, nth);
}

u64 zm_fault_asked(void)
{
	return zm_load64(&fault_asked);
}

bool zm_fault_now(void)
{
	u64 nth = zm_load64(&fault_countdown);

	if (!nth)
		return false;
	return zm_add64(&fault_asked, 1) == nth;
}

static u32 fault_scarce;

void zm_fault_scarce_set(bool scarce)
{
	zm_set32(&fault_scarce, scarce);
}

bool zm_fault_is_scarce(void)
{
	return zm_load32(&fault_scarce);
}

/* -- Memory ---------------------------------------------------------------- */

/*
 * The library maps large tables by itself, zeroed by the system and untouched
 * until used, and takes later ones from memory that it has: a pass borrows its
 * tables for a moment, and touching new memory would take a fifth of its time.
 */
void *zm_port_table_alloc(u64 size)
{
	zm_held_may_wait();
	return zm_fault_now() ? NULL : calloc(1, size ? size : 1);
}

void zm_port_table_free(void *table, u64 size)
{
	zm_held_may_sleep();
	(void)size;
	free(table);
}

void *zm_port_small_alloc(size_t size, bool wait)
{
	if (wait)
		zm_held_may_wait();
	zm_held_may_sleep();
	if (!wait && zm_fault_is_scarce())
		return NULL;
	return zm_fault_now() ? NULL : malloc(size);
}

void zm_port_small_free(void *small, size_t size)
{
	(void)size;
	free(small);
}

/* -- Counters -------------------------------------------------------------- */

void *zm_port_percpu_create(size_t size)
{
	return zm_fault_now() ? NULL : calloc(1, size);
}

void zm_port_percpu_destroy(void *lanes)
{
	free(lanes);
}

u64 zm_port_percpu_bytes(size_t size)
{
	return size;
}

u64 zm_port_percpu_sum(const u64 *counter)
{
	return zm_load64(counter);
}

/* -- Streams --------------------------------------------------------------- */

/* A stream's own cache lines: its neighbour is another processor's. */
struct seat {
	u32 lock;
	struct zm_stream stream;
} __attribute__((aligned(128)));

struct zm_streams {
	const struct zm_codec_choice *choices;
	u32 count;
	struct seat seats[];
};

/* Where this thread sat last; the place is most likely free and warm. */
static __thread u32 last_seat;

static int seat_fill(struct seat *seat, const struct zm_codec_choice *choices)
{
	u32 priority;
	int err;

	seat->stream.packed = zm_port_small_alloc(2 * ZM_PAGE_SIZE, true);
	seat->stream.page = zm_port_small_alloc(ZM_PAGE_SIZE, true);
	seat->stream.copy = zm_port_small_alloc(ZM_PAGE_SIZE, true);
	if (!seat->stream.packed || !seat->stream.page || !seat->stream.copy)
		return -ENOMEM;
	for (priority = 0; priority < ZM_PRIORITIES; priority++) {
		if (!choices[priority].ops)
			continue;
		if (zm_fault_now())
			return -ENOMEM;
		err = choices[priority].ops->context_create(
			&choices[priority].params, &seat->stream.ctx[priority]);
		if (err)
			return err;
	}
	return 0;
}

int zm_port_streams_create(const struct zm_codec_choice *choices, u32 count,
			   struct zm_streams **out)
{
	struct zm_streams *streams;
	size_t bytes;
	u32 i;
	int err;

	bytes = sizeof(*streams) + count * sizeof(struct seat);
	bytes = (bytes + 127) / 128 * 128;
	streams = zm_fault_now() ? NULL : aligned_alloc(128, bytes);
	if (!streams)
		return -ENOMEM;
	memset(streams, 0, bytes);
	streams->choices = choices;
	streams->count = count;
	for (i = 0; i < count; i++) {
		err = seat_fill(&streams->seats[i], choices);
		if (err) {
			zm_port_streams_destroy(streams, NULL);
			return err;
		}
	}
	*out = streams;
	return 0;
}

static void seat_empty(struct zm_streams *streams, struct seat *seat)
{
	u32 priority;

	for (priority = 0; priority < ZM_PRIORITIES; priority++)
		if (seat->stream.ctx[priority])
			streams->choices[priority].ops->context_destroy(
				seat->stream.ctx[priority]);
	free(seat->stream.packed);
	free(seat->stream.page);
	free(seat->stream.copy);
}

void zm_port_streams_destroy(struct zm_streams *streams,
			     void (*release)(void *spare))
{
	struct zm_stream *stream;
	u32 i;

	for (i = 0; i < streams->count; i++) {
		stream = &streams->seats[i].stream;
		if (stream->spare)
			release(stream->spare);
		seat_empty(streams, &streams->seats[i]);
	}
	free(streams);
}

struct zm_stream *zm_port_stream_get(struct zm_streams *streams)
{
	u32 first = last_seat % streams->count, tries = 0, i, seat;

	zm_held_may_sleep();
	for (;;) {
		for (i = 0; i < streams->count; i++) {
			seat = first + i;
			if (seat >= streams->count)
				seat -= streams->count;
			if (!zm_bit_trylock(&streams->seats[seat].lock,
					    ZM_LOCK_STREAM))
				continue;
			last_seat = seat;
			/* Alone in its set it is its maker's own. */
			if (streams->count == 1)
				zm_held_remove(&streams->seats[seat].lock);
			return &streams->seats[seat].stream;
		}
		zm_port_relax(++tries);
	}
}

void zm_port_stream_put(struct zm_streams *streams, struct zm_stream *stream)
{
	struct seat *seat = (struct seat *)((char *)stream -
					    offsetof(struct seat, stream));

	if (streams->count == 1)
		zm_held_add(&seat->lock, ZM_LOCK_STREAM);
	zm_bit_unlock(&seat->lock, 0, ZM_LOCK_STREAM);
}

/* -- The pass's lock, time, randomness, words ------------------------------ */

struct zm_mutex {
	pthread_mutex_t mutex;
};

struct zm_mutex *zm_port_mutex_create(void)
{
	struct zm_mutex *mutex = zm_port_small_alloc(sizeof(*mutex), true);

	if (mutex)
		pthread_mutex_init(&mutex->mutex, NULL);
	return mutex;
}

void zm_port_mutex_destroy(struct zm_mutex *mutex)
{
	pthread_mutex_destroy(&mutex->mutex);
	zm_port_small_free(mutex, sizeof(*mutex));
}

bool zm_port_mutex_trylock(struct zm_mutex *mutex)
{
	return pthread_mutex_trylock(&mutex->mutex) == 0;
}

void zm_port_mutex_lock(struct zm_mutex *mutex)
{
	zm_held_may_sleep();
	pthread_mutex_lock(&mutex->mutex);
}

void zm_port_mutex_unlock(struct zm_mutex *mutex)
{
	pthread_mutex_unlock(&mutex->mutex);
}

void zm_port_mutex_assert_held(struct zm_mutex *mutex)
{
	if (ZM_LOCKS_ARE_CHECKED && !pthread_mutex_trylock(&mutex->mutex))
		zm_port_warn("a mutex that has to be held is not");
}

/* User space is preempted anyway; yielding would only cost system calls. */
void zm_port_yield(void)
{
	zm_held_may_sleep();
}

bool zm_port_interrupted(void)
{
	return false;
}

void zm_port_relax(u32 tries)
{
	if (tries % 64 == 0)
		sched_yield();
	else
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

u64 zm_port_time_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (u64)now.tv_sec * 1000000000u + (u64)now.tv_nsec;
}

u32 zm_port_time_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (u32)now.tv_sec;
}

void zm_port_random(void *bytes, size_t size)
{
	u8 *at = bytes;
	ssize_t got;

	while (size) {
		got = getrandom(at, size, 0);
		if (got < 0) {
			if (errno == EINTR)
				continue;
			zm_port_warn("the system gives no random bytes");
			return;
		}
		at += got;
		size -= (size_t)got;
	}
}

int zm_port_print(char *text, size_t size, const char *format, ...)
{
	va_list args;
	int wanted;

	if (!size)
		return 0;
	va_start(args, format);
	wanted = vsnprintf(text, size, format, args);
	va_end(args);
	if (wanted < 0)
		return 0;
	return (size_t)wanted < size ? wanted : (int)size - 1;
}

void zm_port_encode_error(const char *codec)
{
	(void)codec;
}

void zm_port_warn(const char *what)
{
	fprintf(stderr, "zmeld store: broken invariant: %s\n", what);
	abort();
}

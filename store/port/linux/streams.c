// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Codec streams in the kernel.
 *
 * A store's own set has one stream for each processor that is online, made and
 * given back as processors come and go: a stream weighs from 30 KiB to half a
 * megabyte, and machines that could have hundreds of processors are common. A
 * borrower takes the stream of the processor it runs on, or another that is free,
 * and may move meanwhile: the stream's mutex is what keeps others off, so a borrower
 * may sleep, and a stream is never waited for by one who could not.
 *
 * A set of a given number of streams, as passes make for themselves, knows
 * nothing of processors.
 *
 * Invariants:
 *   - a stream that is handed out is ready, and is so until it is given back;
 *   - memory is allocated with no stream's mutex held: reclaim may write to
 *     this very store;
 *   - a seat keeps its spare when its processor goes: only the set's owner
 *     knows how to let go of it.
 */
#include <linux/cpuhotplug.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/slab.h>
#include <linux/smp.h>

#include <zmeld/port.h>

#include "start.h"

/* A place for one stream. */
struct seat {
	struct mutex lock;	/* of all below */
	bool ready;
	struct zm_stream stream;
};

struct zm_streams {
	/* Constant after create. */
	const struct zm_codec_choice *choices;
	struct seat __percpu *processors;	/* NULL: seats */
	u32 count;				/* of seats */

	struct hlist_node node;		/* those that follow processors */
	struct seat seats[];
};

static int processors_state;

/* -- One stream ------------------------------------------------------------ */

static void stream_empty(struct zm_stream *stream,
			 const struct zm_codec_choice *choices)
{
	u32 i;

	for (i = 0; i < ZM_PRIORITIES; i++)
		if (stream->ctx[i])
			choices[i].ops->context_destroy(stream->ctx[i]);
	kvfree(stream->packed);
	kvfree(stream->page);
	kvfree(stream->copy);
}

static int stream_fill(struct zm_stream *stream,
		       const struct zm_codec_choice *choices, int node)
{
	int err = 0;
	u32 i;

	*stream = (struct zm_stream){
		.packed = kvmalloc_node(2 * ZM_PAGE_SIZE, GFP_KERNEL, node),
		.page = kvmalloc_node(ZM_PAGE_SIZE, GFP_KERNEL, node),
		.copy = kvmalloc_node(ZM_PAGE_SIZE, GFP_KERNEL, node),
	};
	if (!stream->packed || !stream->page || !stream->copy)
		err = -ENOMEM;
	for (i = 0; i < ZM_PRIORITIES && !err; i++)
		if (choices[i].ops)
			err = choices[i].ops->context_create(&choices[i].params,
							     &stream->ctx[i]);
	if (err)
		stream_empty(stream, choices);
	return err;
}

static void seat_init(struct seat *seat)
{
	mutex_init(&seat->lock);
	seat->ready = false;
	seat->stream = (struct zm_stream){ .spare = NULL };
}

static int seat_fill(struct seat *seat, const struct zm_codec_choice *choices,
		     int node)
{
	struct zm_stream stream;
	int err;

	err = stream_fill(&stream, choices, node);
	if (err)
		return err;
	mutex_lock(&seat->lock);
	stream.spare = seat->stream.spare;
	seat->stream = stream;
	seat->ready = true;
	mutex_unlock(&seat->lock);
	return 0;
}

static void seat_empty(struct seat *seat, const struct zm_codec_choice *choices)
{
	struct zm_stream stream;

	mutex_lock(&seat->lock);
	stream = seat->stream;
	seat->stream = (struct zm_stream){ .spare = stream.spare };
	seat->ready = false;
	mutex_unlock(&seat->lock);
	stream_empty(&stream, choices);
}

static void spare_release(struct seat *seat, void (*release)(void *spare))
{
	if (seat->stream.spare && release)
		release(seat->stream.spare);
}

/* -- Processors that come and go ------------------------------------------- */

static int processor_comes(unsigned int cpu, struct hlist_node *node)
{
	struct zm_streams *streams = hlist_entry(node, struct zm_streams, node);

	return seat_fill(per_cpu_ptr(streams->processors, cpu),
			 streams->choices, cpu_to_node(cpu));
}

static int processor_is_gone(unsigned int cpu, struct hlist_node *node)
{
	struct zm_streams *streams = hlist_entry(node, struct zm_streams, node);

	seat_empty(per_cpu_ptr(streams->processors, cpu), streams->choices);
	return 0;
}

int zm_streams_start(void)
{
	int state;

	state = cpuhp_setup_state_multi(CPUHP_BP_PREPARE_DYN,
					"block/zmeld:prepare", processor_comes,
					processor_is_gone);
	if (state < 0)
		return state;
	processors_state = state;
	return 0;
}

void zm_streams_stop(void)
{
	cpuhp_remove_multi_state(processors_state);
}

/* -- Sets ------------------------------------------------------------------ */

static int processors_create(struct zm_streams *streams)
{
	unsigned int cpu;
	int err;

	streams->processors = alloc_percpu(struct seat);
	if (!streams->processors)
		return -ENOMEM;
	for_each_possible_cpu(cpu)
		seat_init(per_cpu_ptr(streams->processors, cpu));
	/* Fills the seats of those that are online; all or none. */
	err = cpuhp_state_add_instance(processors_state, &streams->node);
	if (err)
		free_percpu(streams->processors);
	return err < 0 ? err : 0;
}

static int seats_create(struct zm_streams *streams)
{
	int err = 0;
	u32 i;

	for (i = 0; i < streams->count; i++)
		seat_init(&streams->seats[i]);
	for (i = 0; i < streams->count && !err; i++)
		err = seat_fill(&streams->seats[i], streams->choices,
				NUMA_NO_NODE);
	if (err)
		for (i = 0; i < streams->count; i++)
			seat_empty(&streams->seats[i], streams->choices);
	return err;
}

int zm_port_streams_create(const struct zm_codec_choice *choices, u32 count,
			   struct zm_streams **out)
{
	struct zm_streams *streams;
	int err;

	streams = kzalloc(struct_size(streams, seats, count), GFP_KERNEL);
	if (!streams)
		return -ENOMEM;
	streams->choices = choices;
	streams->count = count;
	err = count ? seats_create(streams) : processors_create(streams);
	if (err) {
		kfree(streams);
		return err;
	}
	*out = streams;
	return 0;
}

void zm_port_streams_destroy(struct zm_streams *streams,
			     void (*release)(void *spare))
{
	unsigned int cpu;
	u32 i;

	if (streams->processors) {
		cpuhp_state_remove_instance(processors_state, &streams->node);
		for_each_possible_cpu(cpu)
			spare_release(per_cpu_ptr(streams->processors, cpu),
				      release);
		free_percpu(streams->processors);
	}
	for (i = 0; i < streams->count; i++) {
		spare_release(&streams->seats[i], release);
		seat_empty(&streams->seats[i], streams->choices);
	}
	kfree(streams);
}

static struct seat *seat_of(struct zm_streams *streams, unsigned int cpu)
{
	return streams->processors ? per_cpu_ptr(streams->processors, cpu) :
				     &streams->seats[cpu % streams->count];
}

/* A seat that nobody has, the own one first, or NULL. */
static struct seat *seat_free(struct zm_streams *streams, unsigned int own)
{
	struct seat *seat;
	unsigned int cpu;

	for_each_cpu_wrap(cpu, cpu_online_mask, own) {
		seat = seat_of(streams, cpu);
		if (!mutex_trylock(&seat->lock))
			continue;
		if (likely(seat->ready))
			return seat;
		mutex_unlock(&seat->lock);
	}
	return NULL;
}

/*
 * Whoever has a seat may be kept from running, as a group is that had its share of
 * time: so all are looked at before one is waited for. Between finding a seat and
 * locking it the processor may have gone, and its stream with it: then there is one
 * where the borrower runs now.
 */
struct zm_stream *zm_port_stream_get(struct zm_streams *streams)
{
	struct seat *seat;
	unsigned int own;

	for (;;) {
		own = raw_smp_processor_id();
		seat = seat_free(streams, own);
		if (seat)
			return &seat->stream;
		seat = seat_of(streams, own);
		mutex_lock(&seat->lock);
		if (likely(seat->ready))
			return &seat->stream;
		mutex_unlock(&seat->lock);
	}
}

void zm_port_stream_put(struct zm_streams *streams, struct zm_stream *stream)
{
	struct seat *seat = container_of(stream, struct seat, stream);

	mutex_unlock(&seat->lock);
}

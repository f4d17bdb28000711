// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How long work is ended early: a pass, recompression, marking idle pages.
 *
 * Whoever wants such work to end counts the store's stops up; whoever works
 * ends when they are not what they were when the work was asked for. So a stop
 * is never taken back, one that comes before the work got going is not lost,
 * and one that came before the work was asked for does not end it.
 *
 * Invariant: between two looks lie at most some comparisons, one object made
 * anew, or a few thousand slots, whatever the pages.
 */
#include "store.h"

#define SLOTS_PER_BATCH	1024

u64 zm_pass_stops(struct zm_store *store)
{
	return zm_load64(&store->stops);
}

void zm_pass_stop(struct zm_store *store)
{
	zm_add64(&store->stops, 1);
}

/* seen: zm_pass_stops() when the work was asked for, or 0: now. */
struct zm_stop zm_stop_watch(struct zm_store *store, u64 seen, u64 time_ns_max)
{
	return (struct zm_stop){
		.store = store,
		.seen = seen ? seen : zm_pass_stops(store),
		.started_ns = zm_port_time_ns(),
		.time_ns_max = time_ns_max,
	};
}

bool zm_stop_wanted(const struct zm_stop *stop)
{
	if (zm_pass_stops(stop->store) != stop->seen || zm_port_interrupted())
		return true;
	return stop->time_ns_max &&
	       zm_port_time_ns() - stop->started_ns > stop->time_ns_max;
}

/* Before each slot of a walk over all: lets others run now and then, and looks. */
bool zm_stop_between_slots(const struct zm_stop *stop, u64 index)
{
	if (index % SLOTS_PER_BATCH)
		return false;
	zm_port_yield();
	return zm_stop_wanted(stop);
}

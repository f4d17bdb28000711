// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * That locks are looked after at all: each fault is made in a process of its own,
 * which has to end by it.
 */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../core/store.h"
#include "harness.h"

static struct zm_slot slots[2];
static struct zm_share share;

static void in_order(void)
{
	zm_slots_lock(&slots[0], &slots[1]);
	zm_share_lock(&share);
	zm_share_assert_locked(&share);
	zm_slot_assert_locked(&slots[1]);
	zm_share_unlock(&share);
	zm_slots_unlock(&slots[0], &slots[1]);
	zm_port_yield();
}

static void slot_after_share(void)
{
	zm_share_lock(&share);
	zm_slot_lock(&slots[0]);
}

static void lower_slot_last(void)
{
	zm_slots_lock(&slots[1], &slots[0]);
}

static void two_slots_of_one_kind(void)
{
	zm_slot_lock(&slots[0]);
	zm_slot_lock(&slots[1]);
}

static void asleep_with_a_lock(void)
{
	zm_slot_lock(&slots[0]);
	zm_port_yield();
}

static struct zm_streams *streams_new(u32 count)
{
	static const struct zm_codec_choice none[ZM_PRIORITIES];
	struct zm_streams *streams;

	if (zm_port_streams_create(none, count, &streams))
		DIE("no streams");
	return streams;
}

static void waiting_with_an_own_stream(void)
{
	zm_port_stream_get(streams_new(1));
	free(zm_port_small_alloc(24, true));
}

static void trying_with_a_stream(void)
{
	zm_port_stream_get(streams_new(2));
	free(zm_port_small_alloc(24, false));
}

static void waiting_with_a_stream(void)
{
	zm_port_stream_get(streams_new(2));
	free(zm_port_small_alloc(24, true));
}

static void unlocked_unheld(void)
{
	zm_slot_unlock(&slots[0]);
}

static void held_by_another(void)
{
	zm_slot_lock(&slots[0]);
	zm_held_play(1);
	zm_slot_assert_locked(&slots[0]);
}

static void mutex_not_held(void)
{
	struct zm_mutex *mutex = zm_port_mutex_create();

	if (mutex)
		zm_port_mutex_assert_held(mutex);
}

static const struct fault {
	const char *name;
	void (*make)(void);
	bool is_found;
} faults[] = {
	{ "all in order", in_order, false },
	{ "waiting for memory with a stream of one's own",
	  waiting_with_an_own_stream, false },
	{ "taking memory that is there with a stream",
	  trying_with_a_stream, false },
	{ "a slot after a share", slot_after_share, true },
	{ "the lower slot last", lower_slot_last, true },
	{ "two slots of one kind", two_slots_of_one_kind, true },
	{ "asleep with a lock", asleep_with_a_lock, true },
	{ "waiting for memory with a stream", waiting_with_a_stream, true },
	{ "unlocked what was not held", unlocked_unheld, true },
	{ "held by another thread", held_by_another, true },
	{ "a mutex that is not held", mutex_not_held, true },
};

static bool is_found(const struct fault *fault)
{
	const struct rlimit no_core = { 0, 0 };
	pid_t child = fork();
	int status;

	if (child < 0)
		DIE("no process");
	if (!child) {
		setrlimit(RLIMIT_CORE, &no_core);
		if (fault->is_found && !freopen("/dev/null", "w", stderr))
			_exit(2);
		fault->make();
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child ||
	    (WIFEXITED(status) && WEXITSTATUS(status)))
		DIE("%s: the process did not end well", fault->name);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

int main(void)
{
	u32 i, count = sizeof(faults) / sizeof(*faults);

	if (!ZM_LOCKS_ARE_CHECKED)
		DIE("locks are looked after under the sanitizers only");
	for (i = 0; i < count; i++)
		if (is_found(&faults[i]) != faults[i].is_found)
			DIE("%s: %s", faults[i].name, faults[i].is_found ?
			    "not found" : "found, and is no fault");
	printf("locks: all of %u cases are told apart\n", count);
	return 0;
}

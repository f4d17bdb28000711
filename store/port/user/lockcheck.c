// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which locks a thread holds: what lockdep and might_sleep() are to the kernel,
 * for the tests under sanitizers. Elsewhere there is nothing here.
 *
 * Every lock of a kind may be waited for while locks of lower kinds are held, of
 * two slots the higher one last; what is only tried may come in any order. What
 * may sleep is called with none of them held. A stream is no such lock: it is
 * borrowed for long, by who may sleep. But nobody waits for memory with one that
 * others may want meanwhile.
 */
#include <zmeld/port.h>

#include "lockcheck.h"

#if ZM_LOCKS_ARE_CHECKED

#define HELD_MAX 8

struct held {
	const u32 *word;
	enum zm_lock lock;
};

struct list {
	struct held at[HELD_MAX];
	u32 count;
};

/* Of this thread, and of those that a test plays; whose turn it is. */
static __thread struct list lists[ZM_HELD_THREADS];
static __thread u32 played;
static __thread void (*between)(void);

static struct list *own(void)
{
	return &lists[played];
}

void zm_held_play(u32 thread)
{
	played = thread;
}

bool zm_held_is_any(void)
{
	const struct list *list = own();
	u32 i;

	for (i = 0; i < list->count; i++)
		if (list->at[i].lock != ZM_LOCK_STREAM)
			return true;
	return false;
}

void zm_held_between_set(void (*happens)(void))
{
	between = happens;
}

void zm_held_between(void)
{
	if (between && !zm_held_is_any())
		between();
}

static bool may_follow(const struct held *before, const u32 *word,
		       enum zm_lock lock)
{
	if (before->lock == ZM_LOCK_STREAM)
		return true;
	if (lock == ZM_LOCK_SLOT_SECOND)
		return before->lock == ZM_LOCK_SLOT && before->word < word;
	return before->lock < lock;
}

void zm_held_wait(const u32 *word, enum zm_lock lock)
{
	const struct list *list = own();
	u32 i;

	zm_held_between();
	for (i = 0; i < list->count; i++)
		if (!may_follow(&list->at[i], word, lock))
			zm_port_warn("a lock is waited for out of order");
}

void zm_held_add(const u32 *word, enum zm_lock lock)
{
	struct list *list = own();

	if (list->count == HELD_MAX) {
		zm_port_warn("a thread holds too many locks");
		return;
	}
	list->at[list->count++] = (struct held){ word, lock };
}

static u32 find(const struct list *list, const u32 *word)
{
	u32 i;

	for (i = 0; i < list->count; i++)
		if (list->at[i].word == word)
			break;
	return i;
}

void zm_held_remove(const u32 *word)
{
	struct list *list = own();
	u32 i = find(list, word);

	if (i == list->count) {
		zm_port_warn("a thread unlocks what it has not locked");
		return;
	}
	list->at[i] = list->at[--list->count];
}

void zm_held_expect(const u32 *word)
{
	if (find(own(), word) == own()->count)
		zm_port_warn("a lock that has to be held is not");
}

void zm_held_may_sleep(void)
{
	if (zm_held_is_any())
		zm_port_warn("what may sleep is called with a lock held");
}

void zm_held_may_wait(void)
{
	if (own()->count)
		zm_port_warn("memory is waited for with a lock or a stream held");
}

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Locks that are held, looked after under the sanitizers; see lockcheck.c. */
#ifndef ZM_USER_LOCKCHECK_H
#define ZM_USER_LOCKCHECK_H

#include <stdbool.h>
#include <stdint.h>

#include <zmeld/lock.h>

#define ZM_HELD_THREADS 3	/* that a test may play */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ZM_LOCKS_ARE_CHECKED 1

/* Before one is waited for. */
void zm_held_wait(const uint32_t *word, enum zm_lock lock);
/* It is locked; it will be unlocked; it has to be locked by this thread. */
void zm_held_add(const uint32_t *word, enum zm_lock lock);
void zm_held_remove(const uint32_t *word);
void zm_held_expect(const uint32_t *word);
void zm_held_may_sleep(void);
/* As may_sleep, and no stream is borrowed that others wait for. */
void zm_held_may_wait(void);
/*
 * For a test that does what other threads could do, in the middle of its own: which
 * of them it plays, 0 to ZM_HELD_THREADS - 1.
 */
void zm_held_play(uint32_t thread);
/* Whether it holds one of a slot, a share or the blocks. */
bool zm_held_is_any(void);
/*
 * That test's: called wherever this thread holds no lock, before one is waited for and
 * after the last was let go.
 */
void zm_held_between_set(void (*happens)(void));
void zm_held_between(void);

#else
#define ZM_LOCKS_ARE_CHECKED 0

#define zm_held_wait(word, lock)	((void)(word), (void)(lock))
#define zm_held_add(word, lock)		((void)(word), (void)(lock))
#define zm_held_remove(word)		((void)(word))
#define zm_held_expect(word)		((void)(word))
#define zm_held_may_sleep()		((void)0)
#define zm_held_may_wait()		((void)0)
#define zm_held_play(thread)		((void)(thread))
#define zm_held_is_any()		false
#define zm_held_between_set(happens)	((void)(happens))
#define zm_held_between()		((void)0)

#endif

#endif /* ZM_USER_LOCKCHECK_H */

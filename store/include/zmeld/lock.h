/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The core's spinning locks, each a bit of a word that it guards the rest of, in
 * the order in which they are taken. A home gets the kind with each call: the
 * kernel's lockdep learns the order from it, and that a lock is held is asserted
 * where tests and checking kernels run. Nothing else looks at it.
 */
#ifndef ZMELD_LOCK_H
#define ZMELD_LOCK_H

enum zm_lock {
	ZM_LOCK_SLOT,
	ZM_LOCK_SLOT_SECOND,	/* of two slots, the one of higher index */
	ZM_LOCK_SHARE,
	ZM_LOCK_BLOCKS,
	ZM_LOCK_STREAM,		/* a home's own; the core takes none inside */
	ZM_LOCKS,
};

/*
 * What a function does with one of them, for sparse: it counts locks along each path
 * and finds the one that forgets to unlock. It tells no lock from another.
 */
#ifdef __CHECKER__
#define zm_acquires(lock)	__attribute__((context(lock, 0, 1)))
#define zm_releases(lock)	__attribute__((context(lock, 1, 0)))
#define zm_must_hold(lock)	__attribute__((context(lock, 1, 1)))
#define zm_acquired(lock)	__context__(lock, 1)
#define zm_released(lock)	__context__(lock, -1)
#define zm_acquired_if(lock, got) ((got) ? ({ zm_acquired(lock); true; }) : false)
#else
#define zm_acquires(lock)
#define zm_releases(lock)
#define zm_must_hold(lock)
#define zm_acquired(lock)	((void)0)
#define zm_released(lock)	((void)0)
#define zm_acquired_if(lock, got) (got)
#endif

#endif /* ZMELD_LOCK_H */

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The core's spinning locks, each a bit of a word that it guards the rest of, in
 * the order in which they are taken. A port gets the kind with each call: the
 * kernel's lockdep learns the order from it, and that a lock is held is asserted
 * where tests and checking kernels run. What a function does with one is declared with
 * zm_acquires() and the like, which a port defines for the checker that it has.
 */
#ifndef ZMELD_LOCK_H
#define ZMELD_LOCK_H

enum zm_lock {
	ZM_LOCK_SLOT,
	ZM_LOCK_SLOT_SECOND,	/* of two slots, the one of higher index */
	ZM_LOCK_SHARE,
	ZM_LOCK_BLOCKS,
	ZM_LOCK_STREAM,		/* a port's own; the core takes none inside */
	ZM_LOCKS,
};

#endif /* ZMELD_LOCK_H */

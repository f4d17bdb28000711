/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The protocol of core/share.h in Promela, for spin: one share, three slots, three
 * threads, each of which does one of the six operations that there are, in all
 * interleavings; the share has one slot or two at first, and is in the pool or in a
 * block.
 *
 * A page never changes, so of an object and of a block it only matters whether it is
 * still the one that was meant: whoever reads it asserts that before and after. What
 * was freed is never used again here, so a use after it was freed is seen at once.
 *
 * Locks are those of the code and every step between them is one of its own: a slot's,
 * the share's, the mutex of pass and recompression. Spin also finds a deadlock.
 *
 * FAULT is the number of an error of order to be found, or 0.
 *   1  a reader drops the slot's lock before it pins the share
 *   2  the pass drops the slots' locks before it holds the share
 *   3  recompression looks for pins, drops the share's lock, and then replaces
 *   4  a writeback lets go of the share before it moves it to the block
 *   5  a reader of a block drops the slot's lock before it holds the share
 *   6  who drops the last pin looks for holders when the lock is gone
 */
#ifndef FAULT
#define FAULT 0
#endif

#define SLOTS	3
#define THREADS	3
/* One at first, and one for each thread. */
#define PLACES	(1 + THREADS)

bool slot_locked[SLOTS];
bool slot_shares[SLOTS];
bool share_locked;
bool mutex_locked;

/* The share. */
bool share_freed;
bool backed;
bool writing;
byte place;		/* an object, or a block where it is backed */
byte count;
byte held;
byte pins;

bool object_lives[PLACES];
bool block_taken[PLACES];

#define IS_HERE	(count > 0 && !backed)

inline slot_lock(s)
{
	atomic { !slot_locked[s] -> slot_locked[s] = true }
}

inline slot_unlock(s)
{
	slot_locked[s] = false
}

inline share_lock()
{
	atomic { !share_locked -> share_locked = true };
	assert(!share_freed)
}

inline share_unlock()
{
	assert(!share_freed);
	share_locked = false
}

inline share_free()
{
	assert(!share_freed);
	share_freed = true
}

inline object_free(o)
{
	assert(object_lives[o]);
	object_lives[o] = false
}

inline block_free(b)
{
	assert(block_taken[b]);
	block_taken[b] = false
}

/* pre: locked; unlocks. As pin_drop(). */
inline pin_drop()
{
	assert(pins > 0);
	pins--;
	gone = (count == 0 && pins == 0);
	if
	:: gone -> object_free(place)
	:: else
	fi;
#if FAULT == 6
	share_unlock();
	gone = gone && held == 0;
#else
	gone = gone && held == 0;
	share_unlock();
#endif
	if
	:: gone -> share_free()
	:: else
	fi
}

/* pre: locked, held by the caller; unlocks. As zm_share_put(). */
inline put()
{
	assert(held > 0);
	held--;
	gone = (count == 0 && held == 0 && pins == 0);
	if
	:: gone && backed -> block_free(place)
	:: else
	fi;
	share_unlock();
	if
	:: gone -> share_free()
	:: else
	fi
}

/* A slot less. As zm_share_release(). */
inline release()
{
	share_lock();
	assert(count > 0);
	count--;
	gone = false;
	if
	:: count == 0 ->
		gone = (held == 0 && pins == 0);
		if
		:: !backed && pins == 0 -> object_free(place)
		:: backed && held == 0 -> block_free(place)
		:: else
		fi
	:: else
	fi;
	share_unlock();
	if
	:: gone -> share_free()
	:: else
	fi
}

/* -- What a thread may do ---------------------------------------------------- */

/* A slot is written anew, or discarded. */
inline let_go(s)
{
	slot_lock(s);
	found = slot_shares[s];
	slot_shares[s] = false;
	slot_unlock(s);
	if
	:: found -> release()
	:: else
	fi
}

inline read_object()
{
	assert(object_lives[mine]);
	skip;
	assert(object_lives[mine])
}

inline read_block()
{
	assert(block_taken[mine]);
	skip;
	assert(block_taken[mine])
}

/* From the pool with a pin, or from the block, held. */
inline read(s)
{
	slot_lock(s);
	if
	:: !slot_shares[s] -> slot_unlock(s)
	:: else ->
#if FAULT == 1
		slot_unlock(s);
#endif
		share_lock();
		if
		:: IS_HERE ->
			mine = place;
			pins++;
			share_unlock();
#if FAULT != 1
			slot_unlock(s);
#endif
			read_object();
			share_lock();
			pin_drop()
		:: else ->
#if FAULT == 5
			mine = place;
			share_unlock();
			slot_unlock(s);
			share_lock();
			held++;
			share_unlock();
#else
			mine = place;
			held++;
			share_unlock();
#if FAULT != 1
			slot_unlock(s);
#endif
#endif
			read_block();
			share_lock();
			put()
		fi
	fi
}

/* A write to slot t of the page that slot s holds. As twin_try(). */
inline write_twin(s, t)
{
	slot_lock(s);
	found = false;
	if
	:: slot_shares[s] ->
		share_lock();
		if
		:: IS_HERE ->
			mine = place;
			pins++;
			found = true
		:: else
		fi;
		share_unlock()
	:: else
	fi;
	slot_unlock(s);
	if
	:: found ->
		read_object();
		share_lock();
		found = IS_HERE;
		count = (found -> count + 1 : count);
		pin_drop()
	:: else
	fi;
	if
	:: found ->
		slot_lock(t);
		found = slot_shares[t];
		slot_shares[t] = true;
		slot_unlock(t);
		if
		:: found -> release()
		:: else
		fi
	:: else
	fi
}

/* Slot t holds an object of its own with the page of slot s < t. */
inline pass(s, t)
{
	if
	:: atomic { mutex_locked -> skip }
	:: atomic { !mutex_locked -> mutex_locked = true };
		slot_lock(s);
		slot_lock(t);
		found = slot_shares[s];
		if
		:: found ->
			share_lock();
			found = IS_HERE;
			if
			:: found && !slot_shares[t] ->
				count++;
				slot_shares[t] = true
			:: else
			fi;
			share_unlock()
		:: else
		fi;
#if FAULT == 2
		slot_unlock(t);
		slot_unlock(s);
#endif
		if
		:: found ->
			share_lock();
			held++;
			share_unlock()
		:: else
		fi;
#if FAULT != 2
		slot_unlock(t);
		slot_unlock(s);
#endif
		if
		:: found ->
			share_lock();
			put()
		:: else
		fi;
		mutex_locked = false
	fi
}

/* Puts another object in the place of the share's. */
inline recompress(s)
{
	if
	:: atomic { mutex_locked -> skip }
	:: atomic { !mutex_locked -> mutex_locked = true };
		slot_lock(s);
		found = slot_shares[s];
		if
		:: found ->
			share_lock();
			found = IS_HERE;
			held = (found -> held + 1 : held);
			share_unlock()
		:: else
		fi;
		slot_unlock(s);
		if
		:: found ->
			mine = _pid;
			object_lives[mine] = true;
			share_lock();
			found = IS_HERE && pins == 0;
#if FAULT == 3
			share_unlock();
			share_lock();
			found = found && IS_HERE;
#endif
			if
			:: found ->
				object_free(place);
				place = mine
			:: else ->
				object_free(mine)
			fi;
			put()
		:: else
		fi;
		mutex_locked = false
	fi
}

/* Moves the share to a block, if it is written. */
inline write_back(s)
{
	mine = _pid;
	block_taken[mine] = true;
	slot_lock(s);
	found = slot_shares[s];
	if
	:: found ->
		share_lock();
		found = IS_HERE && !writing;
		if
		:: found ->
			writing = true;
			held++
		:: else
		fi;
		share_unlock()
	:: else
	fi;
	slot_unlock(s);
	if
	:: !found -> block_free(mine)
	:: else ->
		if
		:: found = true		/* written */
		:: found = false	/* the device failed */
		fi;
		share_lock();
#if FAULT == 4
		put();
		share_lock();
#endif
		writing = false;
		if
		:: found && count > 0 && pins == 0 ->
			object_free(place);
			backed = true;
			place = mine
		:: else ->
			block_free(mine)
		fi;
#if FAULT == 4
		share_unlock()
#else
		put()
#endif
	fi
}

/* -- The whole --------------------------------------------------------------- */

byte ended;

#define OPERATIONS	13

proctype thread(byte operation)
{
	bool found, gone;
	byte mine, s = operation % 2;

	if
	:: operation < 2 -> let_go(s)
	:: operation == 2 || operation == 3 -> read(s)
	:: operation == 4 || operation == 5 -> write_twin(s, 2)
	:: operation == 6 || operation == 7 -> pass(s, 2)
	:: operation == 8 || operation == 9 -> recompress(s)
	:: operation == 10 || operation == 11 -> write_back(s)
	:: operation == 12 -> let_go(2)
	fi;
	ended++
}

/* What must hold when nobody uses it. */
inline expect()
{
	byte i, slots, objects, blocks;

	d_step {
		for (i : 0 .. SLOTS - 1) {
			assert(!slot_locked[i]);
			slots = slots + slot_shares[i]
		};
		for (i : 0 .. PLACES - 1) {
			objects = objects + object_lives[i];
			blocks = blocks + block_taken[i]
		};
		assert(!share_locked && !mutex_locked && !writing);
		assert(count == slots && held == 0 && pins == 0);
		assert(share_freed == (count == 0));
		assert(objects == (count > 0 && !backed));
		assert(blocks == (count > 0 && backed));
		assert(count == 0 || (backed -> block_taken[place] :
					       object_lives[place]))
	}
}

/* Threads are alike: which of them does what does not matter. */
init
{
	byte first, second, third;

	atomic {
		if
		:: count = 1
		:: count = 2
		fi;
		slot_shares[0] = true;
		slot_shares[1] = count == 2;
		if
		:: object_lives[0] = true
		:: backed = true; block_taken[0] = true
		fi;
		select (first : 0 .. OPERATIONS - 1);
		select (second : first .. OPERATIONS - 1);
		select (third : second .. OPERATIONS - 1);
		run thread(first);
		run thread(second);
		run thread(third);
		first = 0;
		second = 0;
		third = 0
	}
	ended == THREADS;
	expect()
}

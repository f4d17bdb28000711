// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The pool of user space by itself: random objects come, are read, and go, with
 * compaction now and then while some of them are being read.
 *
 *	pool [seed] [operations]
 *
 * Each object keeps its bytes wherever it is moved to, and what is being read is not
 * moved. A freed object's room is used before the pool grows: what many objects of one
 * size take is what the fewest spans take that could ever have held them.
 */
#include <zmeld/port.h>

#include "harness.h"

#define OBJECTS		400
#define READERS		4

struct object {
	struct zm_handle handle;
	u32 size;		/* 0: there is none */
	u8 byte;
	const u8 *read;		/* pinned */
};

static struct zm_pool *pool;
static struct object objects[OBJECTS];
static struct rng rng = { 1 };
static u32 readers;

static void expect_bytes(const struct object *object, const u8 *bytes)
{
	u32 at;

	for (at = 0; at < object->size; at++)
		if (bytes[at] != object->byte)
			DIE("an object of %u bytes has others", object->size);
}

static void make(struct object *object, u32 size)
{
	u8 bytes[ZM_PAGE_SIZE];

	object->size = size;
	object->byte = (u8)rng_next(&rng);
	memset(bytes, object->byte, size);
	if (zm_port_pool_alloc(pool, size, true, NULL,
			       &object->handle))
		DIE("no room for %u bytes", size);
	zm_port_pool_write(pool, object->handle, bytes, size);
}

static void read_end(struct object *object)
{
	expect_bytes(object, object->read);
	zm_port_pool_read_end(pool, object->handle, object->read, object->size);
	object->read = NULL;
	readers--;
}

static void read_begin(struct object *object)
{
	object->read = zm_port_pool_read_begin(pool, object->handle,
					       object->size, NULL);
	expect_bytes(object, object->read);
	readers++;
}

static void drop(struct object *object)
{
	zm_port_pool_free(pool, object->handle);
	object->size = 0;
}

static void do_something(void)
{
	struct object *object = &objects[rng_below(&rng, OBJECTS)];
	u32 what = rng_below(&rng, 16);

	if (what == 0)
		zm_port_pool_compact(pool);
	else if (!object->size)
		/* Few sizes, so that their spans are many and partly used. */
		make(object, 1 + rng_below(&rng, 12) * 331 % ZM_PAGE_SIZE);
	else if (object->read)
		read_end(object);
	else if (what < 8 && readers < READERS)
		read_begin(object);
	else
		drop(object);
}

static void end_all(void)
{
	u32 i;

	for (i = 0; i < OBJECTS; i++) {
		if (objects[i].read)
			read_end(&objects[i]);
		if (objects[i].size)
			drop(&objects[i]);
	}
	if (zm_port_pool_used(pool))
		DIE("an empty pool uses %llu bytes", zm_port_pool_used(pool));
}

/* Objects of one size: whatever goes and comes back, no more memory is used. */
static void try_reuse(u32 size)
{
	u64 used;
	u32 i, round;

	for (i = 0; i < OBJECTS; i++)
		make(&objects[i], size);
	used = zm_port_pool_used(pool);
	for (round = 0; round < 4; round++) {
		for (i = round; i < OBJECTS; i += 2 + round)
			drop(&objects[i]);
		if (round % 2)
			zm_port_pool_compact(pool);
		for (i = round; i < OBJECTS; i += 2 + round)
			make(&objects[i], size);
		if (zm_port_pool_used(pool) > used)
			DIE("objects of %u bytes take %llu bytes, and %llu at first",
			    size, zm_port_pool_used(pool), used);
	}
	end_all();
}

/* Half of them gone, compaction gives the memory of half of them back. */
static void try_compaction(u32 size)
{
	u64 used, span;
	u32 i;

	make(&objects[0], size);
	span = zm_port_pool_used(pool);
	for (i = 1; i < OBJECTS; i++)
		make(&objects[i], size);
	used = zm_port_pool_used(pool);
	for (i = 0; i < OBJECTS; i += 2)
		drop(&objects[i]);
	zm_port_pool_compact(pool);
	if (size + 32 < ZM_PAGE_SIZE / 2 &&
	    zm_port_pool_used(pool) > used / 2 + span)
		DIE("half of the objects of %u bytes take %llu of %llu bytes",
		    size, zm_port_pool_used(pool), used);
	end_all();
}

int main(int argc, char **argv)
{
	u64 operations = argc > 2 ? strtoull(argv[2], NULL, 0) : 200000, i;
	u32 size;

	if (argc > 1)
		rng.state = strtoull(argv[1], NULL, 0);
	pool = zm_port_pool_create();
	if (!pool)
		DIE("no pool");
	for (size = 20; size <= ZM_PAGE_SIZE; size += 97) {
		try_reuse(size);
		try_compaction(size);
	}
	for (i = 0; i < operations; i++)
		do_something();
	end_all();
	zm_port_pool_destroy(pool);
	printf("pool: %llu operations ok\n", operations);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Streams of bits: what is written is read back, and neither leaves its memory.
 */
#include "proof.h"

#include "../../zword/bits.h"

#define FIELDS	3
#define WIDTH	12
#define ROOM	12u

/* Fields of any widths and bits, into any capacity: within it, and back again. */
PROOF(fields_come_back, 16, 16, 18)
{
	struct zword_writer writer = { .bits = 0 };
	struct zword_reader reader;
	u32 width[FIELDS], capacity = nondet_u32(), k;
	u64 field[FIELDS];
	u8 dst[ROOM] = { 0 };

	assume(capacity <= ROOM);
	for (k = 0; k < FIELDS; k++) {
		width[k] = nondet_u32();
		field[k] = nondet_u64();
		assume(width[k] <= WIDTH && field[k] < 1ull << width[k]);
		zword_add(&writer, field[k], width[k]);
		if (k % 2 && !zword_flush(&writer, dst, capacity))
			return;
	}
	if (!zword_finish(&writer, dst, capacity))
		return;
	prove(writer.at <= capacity);
	zword_reader_start(&reader, 0);
	for (k = 0; k < FIELDS; k++) {
		zword_refill(&reader, dst, ROOM);
		prove((reader.bits & ((1ull << width[k]) - 1)) == field[k]);
		zword_skip(&reader, width[k]);
	}
	prove(zword_reader_used(&reader) == writer.at);
}

/* No byte at or behind the capacity is written. */
PROOF(writer_keeps_to_its_capacity, 16, 16, 18)
{
	struct zword_writer writer = {
		.bits = nondet_u64(), .count = nondet_u32(), .at = nondet_u32(),
	};
	u32 capacity = nondet_u32(), k = nondet_u32();
	u8 dst[ROOM], before;

	assume(capacity <= ROOM && writer.at <= capacity && writer.count <= 63);
	assume(k >= capacity && k < ROOM);
	any_bytes(dst);
	before = dst[k];
	if (zword_flush(&writer, dst, capacity))
		prove(writer.count < 8);
	prove(writer.at <= capacity && dst[k] == before);
	if (zword_finish(&writer, dst, capacity))
		prove(!writer.count);
	prove(writer.at <= capacity && dst[k] == before);
}

/* A reader in any state reads within its object, and 56 bits are there. */
PROOF(reader_keeps_to_its_object, 16, 16, 18)
{
	u8 object[ROOM];
	u32 size = nondet_u32(), at = nondet_u32();
	struct zword_reader reader = { .bits = nondet_u64(), .at = at };
	u32 used;

	assume(size >= 8 && size <= ROOM && at <= 2 * ROOM && reader.bits);
	any_bytes(object);
	used = zword_reader_used(&reader);
	/* The last bytes of the array stand for the object. */
	zword_refill(&reader, object + ROOM - size, size);
	prove(reader.at >= at);
	prove(zword_reader_taken(&reader) <= 7);
	prove(zword_reader_used(&reader) == used);
}

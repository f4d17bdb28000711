// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Tokens and literals of bytes, written and read again. Streams are of fields here, and
 * no bits: that fields and codes come back is proven in bits.c and tables.c. What is
 * read must be of the table that it was written with.
 */
#include "letters.h"

#include "../../zword/block.h"

#define STREAM		16u	/* fields of one at most */
#define STREAMS		ZWORD_BYTE_STREAMS
#define PLAIN		12u	/* a field that has no table */
#define TOKEN		11u	/* the table of tokens */

struct field {
	u8 table;
	u8 value;
};

static struct field field[STREAMS * STREAM];
static u32 stream;

/* A code: its table, its symbol; its length is 1. */
static void field_add(struct zword_writer *writer, u64 bits, u32 count)
{
	if (!count)
		return;
	prove(writer->count < STREAM);
	field[stream * STREAM + writer->count++] = (struct field){
		count == 8 ? PLAIN : (u8)(bits >> 8), (u8)bits };
}

static bool stream_finish(struct zword_writer *writer)
{
	writer->count = 0;
	writer->at++;
	stream++;
	return true;
}

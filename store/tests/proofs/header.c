// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A block's header: what the encoder writes is what the decoder reads.
 */
#include "proof.h"

#include "../../zword/block.h"

#include "../../zword/encode.c"
#include "../../zword/decode.c"

#define ROOM	48u

/* Any streams, of so many; narrow or wide. */
static void header_comes_back(u32 mode, u32 streams)
{
	u32 narrow = ZWORD_HEADER_SIZE(streams, false), at = narrow, size, k;
	u32 first = nondet_u32(), start[ZWORD_STREAMS_MAX], moved;
	struct zword_header header;
	u8 dst[ROOM], before[ROOM];
	u32 byte = nondet_u32(), set;

	any_bytes(dst);
	memcpy(before, dst, ROOM);
	assume((first & 7) == mode && first < 1u << 16);
	set = first >> ZWORD_SET_SHIFT & 3;
	for (k = 0; k < streams; k++) {
		start[k] = nondet_u32();
		assume(start[k] >= at && start[k] <= ROOM);
		at = start[k];
	}
	size = zword_header_write(dst, ROOM, first, streams, start);
	if (!size)
		return;
	/* A set that the mode does not have is damage. */
	if (set >= zword_sets_of(mode)) {
		prove(!header_read(&header, dst, size));
		return;
	}
	prove(header_read(&header, dst, size));
	prove(header.mode == mode);
	prove(header.set == set);
	prove(header.count == first >> ZWORD_COUNT_SHIFT);
	moved = header.start[0] - narrow;
	for (k = 0; k < streams; k++)
		prove(header.start[k + 1] == start[k] + moved);
	prove(header.start[streams] == size);
	assume(byte >= narrow && byte < at);
	prove(dst[byte + moved] == before[byte]);
}

PROOF(header_of_words_comes_back, 64, 64, 18)
{
	header_comes_back(nondet_bool() ? ZWORD_WORDS_64 : ZWORD_WORDS_32,
			  ZWORD_WORD_STREAMS);
}

PROOF(header_of_bytes_comes_back, 64, 64, 18)
{
	header_comes_back(ZWORD_BYTES, ZWORD_BYTE_STREAMS);
}

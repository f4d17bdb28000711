/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Streams of bits, and words whose bytes are worked on one by one.
 *
 * A stream's first bit is the lowest of its first byte. A reader knows the end
 * of the whole object only: behind its stream it reads what follows, behind the
 * object zeros, and zword_reader_used() tells in the end whether it did.
 */
#ifndef ZWORD_BITS_H
#define ZWORD_BITS_H

#include <zm_platform.h>

#define ZWORD_HIGH_BITS	0x8080808080808080ull

/* Bits that are there after a refill, at least. */
#define ZWORD_REFILLED	56

/* Eight bytes, in the machine's own order: nothing is said about them. */
static inline void zword_copy_8(void *to, const void *from)
{
	put_unaligned(get_unaligned((const u64 *)from), (u64 *)to);
}

/* A word of 8 or 4 bytes. */
static inline u64 zword_get_word(const u8 *at, u32 width)
{
	return width == 8 ? get_unaligned_le64(at) : get_unaligned_le32(at);
}

static inline void zword_put_word(u8 *at, u64 word, u32 width)
{
	if (width == 8)
		put_unaligned_le64(word, at);
	else
		put_unaligned_le32((u32)word, at);
}

/* What one word is more than another, in digits of -128 to 127, each 128 more. */
static inline u64 zword_digits(u64 word, u64 reference)
{
	return word - reference + ZWORD_HIGH_BITS;
}

/* Bit k: byte k is not 0. */
static inline u32 zword_bytes_set(u64 word)
{
	u64 high = ((word & ~ZWORD_HIGH_BITS) + ~ZWORD_HIGH_BITS) | word;

	return (u32)((high & ZWORD_HIGH_BITS) * 0x0002040810204081ull >> 56);
}

/*
 * What comes next, lowest bit first, and above it one bit that is set: the zeros
 * above that one count what was taken.
 */
struct zword_reader {
	u64 bits;
	u32 at;		/* the byte of the first bit */
};

#define ZWORD_READER_MARK	0x8000000000000000ull

static inline void zword_reader_start(struct zword_reader *reader, u32 at)
{
	*reader = (struct zword_reader){ .bits = ZWORD_READER_MARK, .at = at };
}

static inline u32 zword_reader_taken(const struct zword_reader *reader)
{
	return 64 - (u32)fls64(reader->bits);
}

/* size: of the whole object, eight bytes at least where any is left. */
static inline void zword_refill(struct zword_reader *reader, const u8 *src,
				u32 size)
{
	u32 taken = zword_reader_taken(reader), end;
	u64 word;

	reader->at += taken / 8;
	end = reader->at + 8;
	if (end <= size)
		word = get_unaligned_le64(src + reader->at);
	else if (end < size + 8)
		word = get_unaligned_le64(src + size - 8) >> 8 * (end - size);
	else
		word = 0;
	reader->bits = (word | ZWORD_READER_MARK) >> taken % 8;
}

static inline void zword_skip(struct zword_reader *reader, u32 bits)
{
	reader->bits >>= bits;
}

/* The byte behind the last one that bits were taken of. */
static inline u32 zword_reader_used(const struct zword_reader *reader)
{
	return reader->at + (zword_reader_taken(reader) + 7) / 8;
}

/* The entry of a table of so many, a power of two, by the bits that come next. */
static inline u32 zword_entry(const u16 *entries, u32 size, u64 bits)
{
	return entries[bits & (size - 1)];
}

struct zword_writer {
	u64 bits;
	u32 count;
	u32 at;
};

static inline void zword_add(struct zword_writer *writer, u64 bits, u32 count)
{
	writer->bits |= bits << writer->count;
	writer->count += count;
}

/* Whole bytes out of up to 63 bits; false: they pass the end of dst. */
static inline bool zword_flush(struct zword_writer *writer, u8 *dst,
			       u32 capacity)
{
	if (writer->at + 8 <= capacity) {
		put_unaligned_le64(writer->bits, dst + writer->at);
		writer->at += writer->count >> 3;
		writer->bits >>= writer->count & ~7u;
		writer->count &= 7;
		return true;
	}
	for (; writer->count >= 8; writer->count -= 8, writer->bits >>= 8) {
		if (writer->at >= capacity)
			return false;
		dst[writer->at++] = (u8)writer->bits;
	}
	return true;
}

/* The last bits, and on with a new stream at the next byte. */
static inline bool zword_finish(struct zword_writer *writer, u8 *dst,
				u32 capacity)
{
	if (!zword_flush(writer, dst, capacity))
		return false;
	if (writer->count) {
		if (writer->at >= capacity)
			return false;
		dst[writer->at++] = (u8)writer->bits;
	}
	writer->bits = 0;
	writer->count = 0;
	return true;
}

#endif /* ZWORD_BITS_H */

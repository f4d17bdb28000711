/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One page through zword, as the kernel's crypto API asks for it.
 *
 * Invariants:
 *   - a source that is not exactly one page is refused, and so is a result that
 *     would not be exactly one page;
 *   - no byte is written past the capacity;
 *   - nothing sleeps, nothing is allocated;
 *   - where it is asked for, what was encoded has given the page back before it
 *     counts as compressed.
 */
#ifndef ZWORD_CRYPTO_PAGE_H
#define ZWORD_CRYPTO_PAGE_H

#include <zm_platform.h>

#include "../zword/zword.h"

/*
 * What one caller at a time works in; what it held before does not matter. A page is
 * compared when it is encoded: what is decoded stands in what encoding took.
 */
struct zword_context {
	union {
		struct zword_work work;
		struct {
			u8 reading[ZWORD_READ_SIZE];
			u8 decoded[];		/* ZM_PAGE_SIZE */
		};
	};
};

static inline size_t zword_context_size(void)
{
	size_t encoding = sizeof(struct zword_work);
	size_t comparing = ZWORD_READ_SIZE + ZM_PAGE_SIZE;

	return encoding > comparing ? encoding : comparing;
}

/* How a page is to be compressed. */
struct zword_manner {
	const struct zword_tables *tables;
	int level;
	bool is_checked;
};

/* What was encoded did not give the page back; the object has the page as it is. */
#define ZWORD_PAGE_KEPT_RAW	1

/*
 * *dst_size: in the capacity, out the bytes written. 0, or ZWORD_PAGE_KEPT_RAW;
 * -EINVAL: no page; -ENOSPC: it takes more than the capacity; -EIO: what was encoded
 * does not give the page back, and there is no room for it as it is.
 */
int zword_page_compress(const struct zword_manner *manner,
			struct zword_context *context, const u8 *src,
			unsigned int src_size, u8 *dst, unsigned int *dst_size);

/*
 * *dst_size: in the capacity, out a page. 0; -EINVAL: no room for a page, or these
 * bytes are no page's.
 */
int zword_page_decompress(const struct zword_tables *tables,
			  struct zword_context *context, const u8 *src,
			  unsigned int src_size, u8 *dst,
			  unsigned int *dst_size);

#endif /* ZWORD_CRYPTO_PAGE_H */

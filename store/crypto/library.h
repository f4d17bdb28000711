/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * zword, ready for use: its tables stand once, whoever uses them, and a page is
 * decoded and compared before it counts as compressed.
 */
#ifndef ZWORD_LIBRARY_H
#define ZWORD_LIBRARY_H

#include <linux/mm.h>
#include <linux/types.h>

/* Levels: quick; or a twentieth less memory in five times the time. */
#define ZWORD_QUICK	1
#define ZWORD_DENSE	2

/*
 * How many of them are offered: the second takes milliseconds for a page of 64 KiB, and its
 * callers have bottom halves off meanwhile.
 */
#define ZWORD_OFFERED	(PAGE_SIZE > 16384 ? 1 : 2)

/* What one caller at a time works in, at any level. */
struct zword_context;

/* NULL: memory is short, or zword did not start. */
struct zword_context *zword_context_new(void);
void zword_context_free(struct zword_context *context);

/*
 * *dlen: in the capacity, out the bytes written. 0; -EINVAL: slen is no page;
 * -ENOSPC: it takes more than the capacity; -EIO: what was encoded does not give
 * the page back. Neither sleeps nor allocates.
 */
int zword_page_encode(int level, struct zword_context *context, const u8 *src,
		      unsigned int slen, u8 *dst, unsigned int *dlen);

/*
 * *dlen: in the capacity, out a page. 0; -EINVAL: no room for a page, or these
 * bytes are no page's. Neither sleeps nor allocates.
 */
int zword_page_decode(struct zword_context *context, const u8 *src,
		      unsigned int slen, u8 *dst, unsigned int *dlen);

/* Makes the tables and tries them, before anybody asks for a context. */
int zword_library_start(void);
void zword_library_stop(void);
const struct zword_tables *zword_library_tables(void);

#endif /* ZWORD_LIBRARY_H */

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * zword, a compressor for pages of memory: Documentation/staging/zword.rst.
 */
#ifndef _LINUX_ZWORD_H
#define _LINUX_ZWORD_H

#include <linux/types.h>

/**
 * enum zword_level - effort of the encoder
 * @ZWORD_QUICK: one mode, in one pass; for whoever waits for the page
 * @ZWORD_DENSE: all modes, thoroughly; for recompression
 */
enum zword_level {
	ZWORD_QUICK = 1,
	ZWORD_DENSE = 2,
};

struct zword_context;

struct zword_context *zword_context_new(void);
void zword_context_free(struct zword_context *context);

int zword_page_encode(enum zword_level level, struct zword_context *context,
		      const u8 *src, unsigned int slen, u8 *dst,
		      unsigned int *dlen);
int zword_page_decode(struct zword_context *context, const u8 *src,
		      unsigned int slen, u8 *dst, unsigned int dlen);

#endif /* _LINUX_ZWORD_H */

// SPDX-License-Identifier: GPL-2.0-or-later
/* See page.h. */
#include "page.h"

/*
 * Tries for a page that differs from what was decoded: its owner may have changed
 * it meanwhile, an encoder's fault is there again.
 */
#define TRIES	2

static bool gives_back(const struct zword_manner *manner,
		       struct zword_context *context, const u8 *page,
		       const u8 *object, size_t size)
{
	return !zword_decompress(manner->tables, &context->work, object, size,
				 context->decoded, ZM_PAGE_SIZE) &&
	       zm_equal(context->decoded, page, ZM_PAGE_SIZE);
}

int zword_page_compress(const struct zword_manner *manner,
			struct zword_context *context, const u8 *src,
			unsigned int src_size, u8 *dst, unsigned int *dst_size)
{
	size_t size;
	u32 tries;

	if (src_size != ZM_PAGE_SIZE)
		return -EINVAL;
	for (tries = 0; tries < TRIES; tries++) {
		int err;

		size = *dst_size;
		err = zword_compress(manner->tables, &context->work,
				     manner->level, src, src_size, dst, &size);
		if (err)
			return err;
		if (!manner->is_checked ||
		    gives_back(manner, context, src, dst, size)) {
			*dst_size = (unsigned int)size;
			return 0;
		}
	}
	size = *dst_size;
	if (zword_compress(manner->tables, &context->work, ZWORD_LEVEL_RAW, src,
			   src_size, dst, &size))
		return -EIO;
	*dst_size = (unsigned int)size;
	return ZWORD_PAGE_KEPT_RAW;
}

int zword_page_decompress(const struct zword_tables *tables,
			  struct zword_context *context, const u8 *src,
			  unsigned int src_size, u8 *dst,
			  unsigned int *dst_size)
{
	if (*dst_size < ZM_PAGE_SIZE)
		return -EINVAL;
	*dst_size = ZM_PAGE_SIZE;
	return zword_decompress(tables, &context->work, src, src_size, dst,
				ZM_PAGE_SIZE) ? -EINVAL : 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * zword for other parts of the kernel: contexts, and pages through them.
 *
 * The tables are made when the first context is, and stay: a kernel in which nobody
 * uses zword has none, and where there is no memory for them that context alone fails.
 */
#include <linux/cleanup.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/zword.h>

#include "zword.h"

static_assert(ZWORD_QUICK == ZWORD_LEVEL_GLANCE && ZWORD_DENSE == ZWORD_LEVEL_ALL);

/* Written once, before there is a context; whoever has one reads them. */
static struct zword_tables *zword_tables;
static DEFINE_MUTEX(zword_tables_lock);

struct zword_context {
	struct zword_work work;
	u8 decoded[];	/* with CONFIG_ZWORD_CHECK */
};

static int zword_tables_make(void)
{
	struct zword_tables *tables;
	int err;

	guard(mutex)(&zword_tables_lock);
	if (zword_tables)
		return 0;
	tables = kvmalloc(zword_tables_size(), GFP_KERNEL);
	if (!tables)
		return -ENOMEM;
	err = zword_tables_build(tables, zword_lengths, zword_lengths_size);
	if (err) {
		kvfree(tables);
		return err;
	}
	zword_tables = tables;
	return 0;
}

/**
 * zword_context_new() - allocate a context
 *
 * A context is the working memory of one caller at a time. It serves both directions
 * and all levels. The first one makes the tables as well. May sleep.
 *
 * Return: the context, or NULL if memory is short
 */
struct zword_context *zword_context_new(void)
{
	size_t size = sizeof(struct zword_context);

	if (IS_ENABLED(CONFIG_ZWORD_CHECK))
		size += ZWORD_PAGE_SIZE_MAX;
	if (zword_tables_make())
		return NULL;
	return kvmalloc(size, GFP_KERNEL);
}
EXPORT_SYMBOL_GPL(zword_context_new);

/**
 * zword_context_free() - give a context back
 * @context: of zword_context_new(), or NULL
 */
void zword_context_free(struct zword_context *context)
{
	kvfree(context);
}
EXPORT_SYMBOL_GPL(zword_context_free);

/*
 * Returns false also if the page changed since it was encoded. A second try tells that
 * from a fault.
 */
static bool zword_gives_back(struct zword_context *context, const u8 *page,
			     unsigned int page_size, const u8 *object,
			     unsigned int size)
{
	return !zword_decompress(zword_tables, &context->work, object, size,
				 context->decoded, page_size) &&
	       !memcmp(context->decoded, page, page_size);
}

/**
 * zword_page_encode() - compress a page
 * @level: effort
 * @context: context, which no other caller uses during this call
 * @src: page; if it changes during this call, the object decodes to another page
 * @slen: size of the page in bytes, a multiple of 4096 up to 65536
 * @dst: destination
 * @dlen: in: size of the destination in bytes; out: bytes written
 *
 * Neither sleeps nor allocates.
 *
 * Return: 0; -EINVAL if @slen is no size of a page; -ENOSPC if the object does not fit
 * the destination; -EIO, only with CONFIG_ZWORD_CHECK, if the object does not decode to
 * the page
 */
int zword_page_encode(enum zword_level level, struct zword_context *context,
		      const u8 *src, unsigned int slen, u8 *dst,
		      unsigned int *dlen)
{
	unsigned int tries;

	for (tries = 0; tries < 2; tries++) {
		size_t size = *dlen;
		int err = zword_compress(zword_tables, &context->work, level,
					 src, slen, dst, &size);

		if (err)
			return err;
		if (!IS_ENABLED(CONFIG_ZWORD_CHECK) ||
		    zword_gives_back(context, src, slen, dst, size)) {
			*dlen = size;
			return 0;
		}
	}
	pr_warn_once("zword: an object does not decode to its page\n");
	return -EIO;
}
EXPORT_SYMBOL_GPL(zword_page_encode);

/**
 * zword_page_decode() - decompress a page
 * @context: context, which no other caller uses during this call
 * @src: object of zword_page_encode(), or any bytes
 * @slen: size of the object in bytes
 * @dst: destination; nothing outside of it is written, whatever @src holds
 * @dlen: size of the page in bytes, as it was given to zword_page_encode()
 *
 * Neither sleeps nor allocates.
 *
 * Return: 0; -EINVAL if @src does not decode to a page of this size
 */
int zword_page_decode(struct zword_context *context, const u8 *src,
		      unsigned int slen, u8 *dst, unsigned int dlen)
{
	return zword_decompress(zword_tables, &context->work, src, slen, dst,
				dlen) ? -EINVAL : 0;
}
EXPORT_SYMBOL_GPL(zword_page_decode);

static void __exit zword_exit(void)
{
	kvfree(zword_tables);
}
module_exit(zword_exit);

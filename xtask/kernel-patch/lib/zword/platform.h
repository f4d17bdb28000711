/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the codec needs of the kernel. */
#ifndef ZWORD_PLATFORM_H
#define ZWORD_PLATFORM_H

#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/unaligned.h>

#define ZWORD_PAGE_SIZE	(1u << PAGE_SHIFT)

static inline u64 zword_get64(const void *bytes)
{
	return get_unaligned((u64 *)bytes);
}

static inline void zword_put64(void *bytes, u64 word)
{
	put_unaligned(word, (u64 *)bytes);
}

static inline bool zword_equal(const void *one, const void *other, size_t size)
{
	return !memcmp(one, other, size);
}

#endif /* ZWORD_PLATFORM_H */

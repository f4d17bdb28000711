/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the kernel's codecs share: their rows, and memory for a codec that does
 * not bring its own.
 *
 * They are the kernel's own libraries. A codec is there where the kernel's
 * configuration has its library; Kbuild leaves the others out, codec.c too.
 *
 * zram hands its libraries two pages to compress one into, and so does the
 * store. Some of them would need a detour to be safe with less; these give
 * -ENOSPC, without a try, for a capacity below the worst case.
 */
#ifndef ZM_CODEC_LINUX_H
#define ZM_CODEC_LINUX_H

#include <linux/limits.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/slab.h>

#include <zmeld/codecs.h>

/*
 * Levels of a library that takes any number and does what it can, or has none: zram
 * hands on what it is given.
 */
#define CODEC_LEVEL_LEAST	(-INT_MAX)
#define CODEC_LEVEL_MOST	INT_MAX

static inline void *codec_alloc(size_t size)
{
	return kvmalloc(size, GFP_KERNEL);
}

static inline void codec_free(void *memory)
{
	kvfree(memory);
}

/* A lock of what a codec has once for all who have chosen it. */
#define CODEC_LOCK(name)	DEFINE_MUTEX(name)
#define codec_lock(lock)	mutex_lock(lock)
#define codec_unlock(lock)	mutex_unlock(lock)

#endif /* ZM_CODEC_LINUX_H */

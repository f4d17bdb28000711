/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the user-space codecs share: their rows, and memory for a codec that
 * does not bring its own.
 */
#ifndef ZM_CODEC_USER_H
#define ZM_CODEC_USER_H

#include <pthread.h>
#include <stdlib.h>

#include <zmeld/codecs.h>

static inline void *codec_alloc(size_t size)
{
	return malloc(size);
}

static inline void codec_free(void *memory)
{
	free(memory);
}

/* A lock of what a codec has once for all who have chosen it. */
#define CODEC_LOCK(name) \
	pthread_mutex_t name = PTHREAD_MUTEX_INITIALIZER
#define codec_lock(lock)	pthread_mutex_lock(lock)
#define codec_unlock(lock)	pthread_mutex_unlock(lock)

#endif /* ZM_CODEC_USER_H */

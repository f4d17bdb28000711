/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What headers of all kernels know without being asked. */
#ifndef STUB_TYPES_H
#define STUB_TYPES_H

#include <stdbool.h>
#include <stddef.h>

#define __maybe_unused	__attribute__((unused))
#define IS_ENABLED(option) (option)

typedef long ssize_t;
typedef unsigned long long u64;
typedef u64 sector_t;
typedef unsigned int gfp_t;
typedef struct {
	long counter;
} atomic_long_t;

struct page;
struct gendisk;
struct block_device;
struct request_queue;
struct attribute {
	const char *name;
};

#define GFP_KERNEL	0u
#define NUMA_NO_NODE	(-1)

#endif

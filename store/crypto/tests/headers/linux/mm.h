/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <linux/types.h>

#define PAGE_SIZE 4096ul
#define GFP_KERNEL 0u

void *kvmalloc(size_t size, unsigned int flags);
void kvfree(const void *memory);

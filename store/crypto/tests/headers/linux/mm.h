/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <linux/types.h>

#define PAGE_SIZE 4096ul
#define GFP_KERNEL 0u
#define __GFP_NOWARN 0u
#define __GFP_NORETRY 0u

void *kvmalloc(size_t size, unsigned int flags);
void kvfree(const void *memory);
void *alloc_pages_exact(size_t size, unsigned int flags);
void free_pages_exact(void *memory, size_t size);
_Bool is_vmalloc_addr(const void *memory);

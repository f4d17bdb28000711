// SPDX-License-Identifier: GPL-2.0-or-later
/* See span_memory.h. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>

#include "fault.h"
#include "span_memory.h"

#define CHUNK_SIZE	(2u << 20)

struct span_run {
	struct span_run *next;
};

struct span_chunk {
	struct span_chunk *next;
	void *mapping;
	size_t mapping_size;
};

void span_memory_init(struct span_memory *memory, u32 page_size)
{
	*memory = (struct span_memory){ .page_size = page_size };
	pthread_mutex_init(&memory->lock, NULL);
}

void span_memory_destroy(struct span_memory *memory)
{
	struct span_chunk *chunk, *next;

	for (chunk = memory->chunks; chunk; chunk = next) {
		next = chunk->next;
		munmap(chunk->mapping, chunk->mapping_size);
		free(chunk);
	}
	pthread_mutex_destroy(&memory->lock);
}

#ifdef __SANITIZE_ADDRESS__

u8 *span_memory_take(struct span_memory *memory, u32 pages)
{
	return zm_fault_now() ? NULL :
	       malloc((size_t)pages * memory->page_size);
}

void span_memory_give(struct span_memory *memory, u8 *run, u32 pages)
{
	(void)memory;
	(void)pages;
	free(run);
}

#else

/* What is left of the last chunk becomes runs of one page. */
static void use_up_rest(struct span_memory *memory)
{
	struct span_run *run;

	while (memory->fresh_size >= memory->page_size) {
		run = (struct span_run *)memory->fresh;
		run->next = memory->free[1];
		memory->free[1] = run;
		memory->fresh += memory->page_size;
		memory->fresh_size -= memory->page_size;
	}
}

static bool add_chunk(struct span_memory *memory)
{
	struct span_chunk *chunk = malloc(sizeof(*chunk));
	uintptr_t start;

	if (!chunk)
		return false;
	/* Twice the size holds a whole aligned chunk; the rest stays untouched. */
	chunk->mapping_size = 2 * (size_t)CHUNK_SIZE;
	chunk->mapping = mmap(NULL, chunk->mapping_size, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			      0);
	if (chunk->mapping == MAP_FAILED) {
		free(chunk);
		return false;
	}
	use_up_rest(memory);
	chunk->next = memory->chunks;
	memory->chunks = chunk;
	start = ((uintptr_t)chunk->mapping + CHUNK_SIZE - 1) /
		CHUNK_SIZE * CHUNK_SIZE;
	memory->fresh = (u8 *)start;
	memory->fresh_size = CHUNK_SIZE;
	/* Only a wish: where huge pages are off it is slower, no more. */
	(void)madvise(memory->fresh, CHUNK_SIZE, MADV_HUGEPAGE);
	return true;
}

u8 *span_memory_take(struct span_memory *memory, u32 pages)
{
	size_t size = (size_t)pages * memory->page_size;
	struct span_run *run;
	u8 *bytes = NULL;

	if (zm_fault_now())
		return NULL;
	pthread_mutex_lock(&memory->lock);
	run = memory->free[pages];
	if (run) {
		memory->free[pages] = run->next;
		bytes = (u8 *)run;
	} else if (memory->fresh_size >= size || add_chunk(memory)) {
		bytes = memory->fresh;
		memory->fresh += size;
		memory->fresh_size -= size;
	}
	pthread_mutex_unlock(&memory->lock);
	return bytes;
}

void span_memory_give(struct span_memory *memory, u8 *bytes, u32 pages)
{
	struct span_run *run = (struct span_run *)bytes;

	pthread_mutex_lock(&memory->lock);
	run->next = memory->free[pages];
	memory->free[pages] = run;
	pthread_mutex_unlock(&memory->lock);
}

#endif

// SPDX-License-Identifier: GPL-2.0-or-later
/* See geometry.h. */
#include "geometry.h"

#define CLASS_BITS	8
#define SMALLEST	32

static bool is_power_of_two(u32 x)
{
	return x && !(x & (x - 1));
}

static u32 chain_least_waste(u32 page_size, u32 chain, u32 size)
{
	u32 best = 1, best_waste = (u32)-1, pages, waste;

	if (is_power_of_two(size))
		return 1;
	for (pages = 1; pages <= chain; pages++) {
		waste = pages * page_size % size;
		if (waste < best_waste) {
			best_waste = waste;
			best = pages;
		}
	}
	return best;
}

static u32 chain_best_percent(u32 page_size, u32 chain, u32 size)
{
	u32 best = 1, best_percent = 0, pages, span, percent;

	for (pages = 1; pages <= chain; pages++) {
		span = pages * page_size;
		percent = (span - span % size) * 100 / span;
		if (percent > best_percent) {
			best_percent = percent;
			best = pages;
		}
	}
	return best;
}

static bool same_shape(const struct zm_class_shape *a,
		       const struct zm_class_shape *b)
{
	return a->pages == b->pages && a->objects == b->objects;
}

int zm_geometry_init(struct zm_geometry *g, u32 page_size, u32 chain,
		     enum zm_chain_rule rule)
{
	struct zm_class_shape shape;
	u32 steps, step, size;

	if (!is_power_of_two(page_size) || page_size < 4096 ||
	    page_size > 65536 || !chain || chain > ZM_CHAIN_MAX)
		return -EINVAL;
	*g = (struct zm_geometry){
		.page_size = page_size,
		.delta = page_size >> CLASS_BITS,
		.size_min = SMALLEST,
	};
	steps = (page_size - SMALLEST + g->delta - 1) / g->delta + 1;
	if (steps > ZM_CLASSES_MAX)
		return -EINVAL;
	/* From the largest down: a class joins the one above it. */
	for (step = steps; step-- > 0;) {
		size = SMALLEST + step * g->delta;
		if (size > page_size)
			size = page_size;
		shape.object_size = size;
		shape.pages = rule == ZM_CHAIN_LEAST_WASTE ?
			      chain_least_waste(page_size, chain, size) :
			      chain_best_percent(page_size, chain, size);
		shape.objects = shape.pages * page_size / size;
		if (shape.pages != 1 && shape.objects != 1 && !g->huge_size)
			g->huge_size = size - (ZM_HANDLE_BYTES - 1);
		if (!g->class_count ||
		    !same_shape(&g->classes[g->class_count - 1], &shape))
			g->classes[g->class_count++] = shape;
		g->class_of_step[step] = (u16)(g->class_count - 1);
	}
	/* No span longer than a page anywhere: only whole pages are huge. */
	if (!g->huge_size)
		g->huge_size = page_size;
	return 0;
}

u32 zm_geometry_class(const struct zm_geometry *g, u32 size)
{
	u32 step;

	size += ZM_HANDLE_BYTES;
	if (size <= g->size_min)
		return g->class_of_step[0];
	step = (size - g->size_min + g->delta - 1) / g->delta;
	if (step >= ZM_CLASSES_MAX || size >= g->page_size)
		return 0;
	return g->class_of_step[step];
}

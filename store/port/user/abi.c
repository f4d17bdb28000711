// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The sizes of the structs that cross into other languages, so that those can
 * test their own declarations against them.
 */
#include <zmeld/store.h>

#include "geometry.h"

struct zm_abi {
	size_t page_size, options, stats, meld_options, meld_result, geometry,
	       share;
};

const struct zm_abi zm_abi = {
	.page_size = ZM_PAGE_SIZE,
	.options = sizeof(struct zm_store_options),
	.stats = sizeof(struct zm_stats),
	.meld_options = sizeof(struct zm_meld_options),
	.meld_result = sizeof(struct zm_meld_result),
	.geometry = sizeof(struct zm_geometry),
	.share = ZM_SHARE_BYTES,
};

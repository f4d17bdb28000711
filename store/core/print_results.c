// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Printers for tests and tools, in user space only: what a pass did, and what a
 * slot holds. The module has attributes of its own for these and is built
 * without this file.
 */
#include "store.h"
#include "text.h"

static const char *const kind_names[] = {
	[ZM_KIND_EMPTY] = "empty",
	[ZM_KIND_SAME] = "same-filled",
	[ZM_KIND_OBJECT] = "object",
	[ZM_KIND_SHARE] = "share",
};

#define LINE(text, from, name) \
	zm_text_add(text, "%-22s %llu\n", #name, (unsigned long long)(from)->name)

int zm_meld_result_to_text(const struct zm_meld_result *result, char *bytes,
			   size_t size)
{
	struct zm_text text = { bytes, size, 0 };

	LINE(&text, result, pages_stored);
	LINE(&text, result, pages_unfingerprinted);
	LINE(&text, result, pages_sampled);
	LINE(&text, result, duplicates_sampled);
	LINE(&text, result, candidates);
	LINE(&text, result, pages_melded);
	LINE(&text, result, bytes_saved);
	LINE(&text, result, bytes_metadata);
	LINE(&text, result, collisions);
	LINE(&text, result, raced);
	LINE(&text, result, memory_borrowed);
	LINE(&text, result, rounds);
	LINE(&text, result, time_sample_ns);
	LINE(&text, result, time_find_ns);
	LINE(&text, result, time_meld_ns);
	LINE(&text, result, pages_backed);
	LINE(&text, result, pages_crowded);
	LINE(&text, result, below_threshold);
	LINE(&text, result, stopped);
	return (int)text.used;
}

int zm_slot_to_text(struct zm_store *store, u64 index, char *bytes, size_t size)
{
	struct zm_text text = { bytes, size, 0 };
	struct zm_slot_info info;

	zm_text_add(&text, "slot %llu: ", (unsigned long long)index);
	if (zm_slot_info(store, index, &info)) {
		zm_text_add(&text, "no such slot\n");
		return (int)text.used;
	}
	zm_text_add(&text, "%s", info.kind <= ZM_KIND_SHARE ?
		    kind_names[info.kind] : "unknown");
	if (info.kind == ZM_KIND_SAME)
		zm_text_add(&text, " %016llx", (unsigned long long)info.word);
	if (info.size)
		zm_text_add(&text, " %u bytes%s", info.size,
			    info.size == ZM_PAGE_SIZE ? " raw" : "");
	if (info.priority)
		zm_text_add(&text, " priority %u", info.priority);
	if (info.sharers)
		zm_text_add(&text, " of %u", info.sharers);
	if (info.backed)
		zm_text_add(&text, " block %llu",
			    (unsigned long long)info.block);
	zm_text_add(&text, "%s%s", info.incompressible ? " incompressible" : "",
		    info.idle ? " idle" : "");
	if (info.fingerprinted)
		zm_text_add(&text, " fingerprint %08x", info.fingerprint);
	zm_text_add(&text, "\n");
	return (int)text.used;
}

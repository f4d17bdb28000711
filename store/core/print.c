// SPDX-License-Identifier: GPL-2.0-or-later
/* Printers: one "name value" a line, the same wherever it is shown. */
#include "store.h"
#include "text.h"

static const char *const reason_names[ZM_REASON_COUNT] = {
	[ZM_REASON_BAD_INDEX] = "bad_index",
	[ZM_REASON_NO_MEMORY] = "no_memory",
	[ZM_REASON_LIMIT] = "limit",
	[ZM_REASON_DAMAGED] = "damaged",
	[ZM_REASON_MISMATCH] = "mismatch",
};

static const char *const mode_names[] = {
	[ZM_MELD_OFF] = "off",
	[ZM_MELD_MANUAL] = "manual",
	[ZM_MELD_AUTO] = "auto",
	[ZM_MELD_INLINE] = "inline",
};

static const char *const kind_names[] = {
	[ZM_KIND_EMPTY] = "empty",
	[ZM_KIND_SAME] = "same-filled",
	[ZM_KIND_OBJECT] = "object",
	[ZM_KIND_SHARE] = "share",
};

const char *zm_reason_name(u32 reason)
{
	return reason < ZM_REASON_COUNT ? reason_names[reason] : "unknown";
}

const char *zm_meld_mode_name(u32 mode)
{
	return mode <= ZM_MELD_INLINE ? mode_names[mode] : "unknown";
}

#define LINE(text, from, name) \
	zm_text_add(text, "%-22s %llu\n", #name, (unsigned long long)(from)->name)

int zm_stats_to_text(const struct zm_stats *stats, char *bytes, size_t size)
{
	struct zm_text text = { bytes, size, 0 };
	u32 reason;

	LINE(&text, stats, slots);
	LINE(&text, stats, pages_stored);
	LINE(&text, stats, pages_same);
	LINE(&text, stats, pages_raw);
	LINE(&text, stats, pages_shared);
	LINE(&text, stats, objects);
	LINE(&text, stats, shares);
	LINE(&text, stats, bytes_compressed);
	LINE(&text, stats, bytes_melded);
	LINE(&text, stats, memory_used);
	LINE(&text, stats, memory_used_max);
	LINE(&text, stats, memory_limit);
	LINE(&text, stats, memory_metadata);
	LINE(&text, stats, reads);
	LINE(&text, stats, writes);
	LINE(&text, stats, discards);
	LINE(&text, stats, raw_since);
	LINE(&text, stats, passes);
	LINE(&text, stats, pass_melded);
	LINE(&text, stats, inline_probes);
	LINE(&text, stats, inline_melded);
	LINE(&text, stats, inline_unchanged);
	LINE(&text, stats, inline_collisions);
	LINE(&text, stats, auto_switches);
	zm_text_add(&text, "%-22s %s\n", "mode", zm_meld_mode_name(stats->mode));
	LINE(&text, stats, inline_active);
	for (reason = 0; reason < ZM_REASON_COUNT; reason++)
		zm_text_add(&text, "failures_%-13s %llu\n",
			    zm_reason_name(reason),
			    (unsigned long long)stats->failures[reason]);
	return (int)text.used;
}

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
	LINE(&text, result, below_threshold);
	LINE(&text, result, stopped);
	return (int)text.used;
}

int zm_slot_to_text(struct zm_store *store, u64 index, char *bytes, size_t size)
{
	struct zm_text text = { bytes, size, 0 };
	struct zm_content content;
	u32 object_size = 0, count = 0;
	enum zm_kind kind;

	if (index >= store->slot_count) {
		zm_text_add(&text, "slot %llu: no such slot\n",
			    (unsigned long long)index);
		return (int)text.used;
	}
	zm_slot_lock(&store->slots[index]);
	content = zm_slot_content(&store->slots[index]);
	kind = zm_state_kind(content.state);
	if (zm_state_has_object(content.state))
		object_size = zm_content_object(content).size;
	if (kind == ZM_KIND_SHARE)
		count = zm_load32(&zm_content_share(content)->count);
	zm_slot_unlock(&store->slots[index]);

	zm_text_add(&text, "slot %llu: %s", (unsigned long long)index,
		    kind <= ZM_KIND_SHARE ? kind_names[kind] : "unknown");
	if (kind == ZM_KIND_SAME)
		zm_text_add(&text, " %016llx", (unsigned long long)content.value);
	if (object_size)
		zm_text_add(&text, " %u bytes%s", object_size,
			    object_size == ZM_PAGE_SIZE ? " raw" : "");
	if (count)
		zm_text_add(&text, " of %u", count);
	if (content.state & ZM_STATE_FINGERPRINTED)
		zm_text_add(&text, " fingerprint %08x", content.fingerprint);
	zm_text_add(&text, "\n");
	return (int)text.used;
}

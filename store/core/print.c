// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What is shown: the names of settings, and what a slot holds.
 */
#include "store.h"

static const char *const mode_names[] = {
	[ZM_MELD_OFF] = "off",
	[ZM_MELD_MANUAL] = "manual",
	[ZM_MELD_AUTO] = "auto",
	[ZM_MELD_INLINE] = "inline",
};

static const char *const check_writes_names[] = {
	[ZM_CHECK_WRITES_AUTO] = "auto",
	[ZM_CHECK_WRITES_ON] = "on",
	[ZM_CHECK_WRITES_OFF] = "off",
};

const char *zm_meld_mode_name(u32 mode)
{
	return mode <= ZM_MELD_INLINE ? mode_names[mode] : "unknown";
}

const char *zm_check_writes_name(u32 check_writes)
{
	return check_writes <= ZM_CHECK_WRITES_OFF ?
		check_writes_names[check_writes] : "unknown";
}

static void info_of_object(struct zm_slot_info *info, struct zm_content content)
{
	struct zm_object object = zm_content_object(content);

	info->size = object.size;
	info->priority = object.priority;
	info->huge = zm_object_is_raw(object);
	info->incompressible = content.state & ZM_STATE_INCOMPRESSIBLE;
	info->idle = content.state & ZM_STATE_IDLE;
}

static void info_of_share(struct zm_slot_info *info, struct zm_content content)
{
	struct zm_share *share = zm_content_share(content);

	zm_share_lock(share);
	info->size = share->size;
	info->priority = zm_state_priority(zm_load32(&share->state));
	info->sharers = share->count;
	info->backed = zm_share_is(share, ZM_SHARE_BACKED);
	info->block = info->backed ? share->place : 0;
	info->huge = !info->backed && share->size == ZM_PAGE_SIZE;
	info->incompressible = zm_share_is(share, ZM_SHARE_INCOMPRESSIBLE);
	info->idle = !info->backed && content.state & ZM_STATE_IDLE;
	zm_share_unlock(share);
}

int zm_slot_info(struct zm_store *store, u64 index, struct zm_slot_info *info)
{
	struct zm_content content;
	struct zm_slot *slot;

	*info = (struct zm_slot_info){ 0 };
	if (index >= store->slot_count)
		return -EINVAL;
	slot = &store->slots[index];
	zm_slot_lock(slot);
	content = zm_slot_content(slot);
	info->kind = zm_state_kind(content.state);
	if (info->kind == ZM_KIND_OBJECT)
		info_of_object(info, content);
	else if (info->kind == ZM_KIND_SHARE)
		info_of_share(info, content);
	zm_slot_unlock(slot);
	info->fingerprint = content.fingerprint;
	info->accessed_s = zm_load32(&store->accessed[index]);
	return 0;
}

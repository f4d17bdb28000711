// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What is written to an attribute as "key=value key=value", as zram takes it.
 * The words stand in a copy that the arguments own until they end.
 */
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "device.h"

/* -ENOMEM, or 0 and something to end. */
int zm_arguments_begin(struct zm_arguments *arguments, const char *text)
{
	arguments->copy = kstrdup(text, GFP_KERNEL);
	if (!arguments->copy)
		return -ENOMEM;
	arguments->rest = skip_spaces(arguments->copy);
	return 0;
}

/* The next word's key and value; a value of no characters is none. */
bool zm_arguments_next(struct zm_arguments *arguments)
{
	if (!*arguments->rest)
		return false;
	arguments->rest = next_arg(arguments->rest, &arguments->key,
				   &arguments->value);
	if (arguments->value && !*arguments->value)
		arguments->value = NULL;
	return true;
}

/* Whether it is this key, with a value. */
bool zm_argument_is(const struct zm_arguments *arguments, const char *key)
{
	return arguments->value && !strcmp(arguments->key, key);
}

/* zram's names for pages to recompress or to write back; -EINVAL: none of them. */
int zm_argument_pick(const char *name, u32 *which)
{
	static const struct {
		const char *name;
		u32 which;
	} picks[] = {
		{ "idle", ZM_PICK_IDLE },
		{ "huge", ZM_PICK_HUGE },
		{ "huge_idle", ZM_PICK_HUGE | ZM_PICK_IDLE },
		{ "incompressible", ZM_PICK_INCOMPRESSIBLE },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(picks); i++) {
		if (!strcmp(name, picks[i].name)) {
			*which = picks[i].which;
			return 0;
		}
	}
	return -EINVAL;
}

void zm_arguments_end(struct zm_arguments *arguments)
{
	kfree(arguments->copy);
}

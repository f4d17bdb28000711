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

void zm_arguments_end(struct zm_arguments *arguments)
{
	kfree(arguments->copy);
}

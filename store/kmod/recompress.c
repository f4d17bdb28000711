// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Recompression, started by writing to `recompress`. Which pages, and how, is
 * the store's; here are zram's words for it.
 */
#include <linux/kernel.h>
#include <linux/kstrtox.h>
#include <linux/string.h>

#include "device.h"

struct wish {
	struct zm_recompress_options options;
	const char *codec;
	int priority;
	bool priority_given;
	bool none;		/* max_pages=0: nothing is to be tried */
};

static int type_parse(const char *value, u32 *which)
{
	if (!strcmp(value, "idle"))
		*which = ZM_PICK_IDLE;
	else if (!strcmp(value, "huge"))
		*which = ZM_PICK_HUGE;
	else if (!strcmp(value, "huge_idle"))
		*which = ZM_PICK_HUGE | ZM_PICK_IDLE;
	else
		return -EINVAL;
	return 0;
}

/* "type=T max_pages=N threshold=BYTES algo=NAME priority=N" */
static int wish_parse(struct zm_arguments *arguments, struct wish *wish)
{
	struct zm_recompress_options *options = &wish->options;
	int err = 0;

	while (!err && zm_arguments_next(arguments)) {
		if (zm_argument_is(arguments, "type")) {
			err = type_parse(arguments->value, &options->which);
		} else if (zm_argument_is(arguments, "max_pages")) {
			err = kstrtou64(arguments->value, 10,
					&options->pages_max);
			wish->none = !options->pages_max;
		} else if (zm_argument_is(arguments, "threshold")) {
			err = kstrtou32(arguments->value, 10,
					&options->size_min);
		} else if (zm_argument_is(arguments, "algo")) {
			wish->codec = arguments->value;
		} else if (zm_argument_is(arguments, "priority")) {
			wish->priority_given = true;
			err = kstrtoint(arguments->value, 10, &wish->priority);
		} else {
			err = -EINVAL;
		}
	}
	if (!err && options->size_min >= PAGE_SIZE)
		err = -EINVAL;
	return err;
}

/* pre: the device is locked for work. */
static int wish_run(struct zm_device *device, struct wish *wish)
{
	struct zm_recompress_result result = {};
	int priority, err;

	priority = zm_codec_priority(device, wish->codec,
				     wish->priority_given ?
				     &wish->priority : NULL, 1);
	if (priority < 0)
		return priority;
	if (!device->codecs[priority].ops)
		return -EINVAL;
	if (wish->none)
		return 0;
	wish->options.priority_first = priority;
	wish->options.priority_end = priority + 1;
	err = zm_recompress_run(device->store, &wish->options, &result);
	if (!err && result.stopped)
		err = -EINTR;
	if (!err && result.pages_damaged)
		err = -EIO;
	return err;
}

static ssize_t recompress_store(struct device *dev,
				struct device_attribute *attr,
				const char *buf, size_t len)
{
	struct zm_device *device = zm_device_of(dev);
	struct zm_arguments arguments;
	struct wish wish = {};
	int err;

	err = zm_arguments_begin(&arguments, buf);
	if (err)
		return err;
	err = wish_parse(&arguments, &wish);
	if (!err)
		err = zm_device_lock_work(device, true,
					  &wish.options.stops_seen);
	if (!err) {
		err = wish_run(device, &wish);
		zm_device_unlock_work(device);
	}
	zm_arguments_end(&arguments);
	return err ? err : len;
}
static DEVICE_ATTR_WO(recompress);

static struct attribute *recompress_attributes[] = {
	&dev_attr_recompress.attr,
	NULL,
};

const struct attribute_group zm_recompress_group = {
	.attrs = recompress_attributes,
};

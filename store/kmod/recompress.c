// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Recompression, started by writing to `recompress`. Which pages, and how, is
 * the store's; here are zram's words for it.
 */
#include <linux/kernel.h>
#include <linux/kstrtox.h>
#include <linux/string.h>

#include "device.h"

struct recompress_request {
	struct zm_recompress_options options;
	const char *codec;
	int priority;
	bool priority_given;
	bool none;		/* max_pages=0: nothing is to be tried */
};

/* "type=T max_pages=N threshold=BYTES algo=NAME priority=N" */
static int request_parse(struct zm_arguments *arguments,
			 struct recompress_request *request)
{
	struct zm_recompress_options *options = &request->options;
	int err = 0;

	while (!err && zm_arguments_next(arguments)) {
		if (zm_argument_is(arguments, "type")) {
			err = zm_argument_pick(arguments->value,
					       &options->which);
			/* What no codec helped is not tried again. */
			if (!err && options->which & ZM_PICK_INCOMPRESSIBLE)
				err = -EINVAL;
		} else if (zm_argument_is(arguments, "max_pages")) {
			err = kstrtou64(arguments->value, 10,
					&options->pages_max);
			request->none = !options->pages_max;
		} else if (zm_argument_is(arguments, "threshold")) {
			err = kstrtou32(arguments->value, 10,
					&options->size_min);
		} else if (zm_argument_is(arguments, "algo")) {
			request->codec = arguments->value;
		} else if (zm_argument_is(arguments, "priority")) {
			request->priority_given = true;
			err = kstrtoint(arguments->value, 10,
					&request->priority);
		} else {
			err = -EINVAL;
		}
	}
	if (!err && options->size_min >= PAGE_SIZE)
		err = -EINVAL;
	return err;
}

/* pre: the device is locked for work. */
static int request_run(struct zm_device *device,
		       struct recompress_request *request)
{
	struct zm_recompress_result result = {};
	int priority, err;

	priority = zm_codec_priority(device, request->codec,
				     request->priority_given ?
				     &request->priority : NULL, 1);
	if (priority < 0)
		return priority;
	if (!device->codecs[priority].ops)
		return -EINVAL;
	if (request->none)
		return 0;
	request->options.priority = priority;
	err = zm_recompress_run(device->store, &request->options, &result);
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
	struct recompress_request request = {};
	int err;

	err = zm_arguments_begin(&arguments, buf);
	if (err)
		return err;
	err = request_parse(&arguments, &request);
	if (!err)
		err = zm_device_lock_work(device, true,
					  &request.options.stops_seen);
	if (!err) {
		err = request_run(device, &request);
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

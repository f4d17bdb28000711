// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which codecs a device uses, by priority, and their parameters. All of it is
 * chosen before the device has its size and stays until reset.
 */
#define pr_fmt(fmt) "zmeld: " fmt

#include <linux/kstrtox.h>
#include <linux/string.h>

#include "device.h"

/* Longer names are refused before anyone looks for them, as zram does. */
#define NAME_SIZE_MAX 128

/* What zram would take on this kernel. */
#ifdef CONFIG_ZRAM_DEF_COMP
#define CODEC_DEFAULT CONFIG_ZRAM_DEF_COMP
#else
#define CODEC_DEFAULT "lzo-rle"
#endif

static const struct zm_codec_ops *codec_named(const char *text)
{
	size_t i;

	for (i = 0; i < zm_codec_count; i++)
		if (sysfs_streq(text, zm_codecs[i]->name))
			return zm_codecs[i];
	return NULL;
}

static const struct zm_codec_ops *codec_default(void)
{
	const struct zm_codec_ops *ops = codec_named(CODEC_DEFAULT);

	return ops ? ops : zm_codecs[0];
}

/* pre: the device has no store that uses them. */
void zm_codecs_reset(struct zm_device *device)
{
	u32 i;

	for (i = 0; i < ZM_PRIORITIES; i++) {
		device->codecs[i].level = ZM_CODEC_LEVEL_DEFAULT;
		device->codecs[i].ops = i ? NULL : codec_default();
	}
}

void zm_codecs_choose(const struct zm_device *device,
		      struct zm_store_options *options)
{
	const struct zm_codec_setting *setting;
	u32 i;

	for (i = 0; i < ZM_PRIORITIES; i++) {
		setting = &device->codecs[i];
		options->codecs[i] = (struct zm_codec_choice){
			.ops = setting->ops,
			.params.level = setting->level,
		};
	}
}

/*
 * The priority meant by a codec's name, by a number, or by both, from `first`
 * on. *asked is the number, or asked is NULL. -EINVAL: nothing fits.
 * pre: device->lock is held.
 */
int zm_codec_priority(const struct zm_device *device, const char *name,
		      const int *asked, int first)
{
	const struct zm_codec_ops *ops;
	int i;

	if (asked && (*asked < first || *asked >= ZM_PRIORITIES))
		return -EINVAL;
	if (!name)
		return asked ? *asked : first;
	for (i = first; i < ZM_PRIORITIES; i++) {
		ops = device->codecs[i].ops;
		if (asked && i != *asked)
			continue;
		if (ops && !strcmp(ops->name, name))
			return i;
	}
	return -EINVAL;
}

/* -- Which ----------------------------------------------------------------- */

/* All names, the chosen one in brackets. */
static int names_show(const struct zm_codec_ops *chosen, char *text, int at)
{
	int from = at;
	size_t i;

	for (i = 0; i < zm_codec_count; i++)
		at += sysfs_emit_at(text, at,
				    zm_codecs[i] == chosen ? "[%s] " : "%s ",
				    zm_codecs[i]->name);
	at += sysfs_emit_at(text, at, "\n");
	return at - from;
}

static int codec_set(struct zm_device *device, int priority, const char *name)
{
	const struct zm_codec_ops *ops;
	int err;

	if (strlen(name) >= NAME_SIZE_MAX)
		return -E2BIG;
	ops = codec_named(name);
	if (!ops)
		return -EINVAL;
	err = zm_device_lock_settings(device);
	if (err)
		return err;
	device->codecs[priority].ops = ops;
	zm_device_unlock_settings(device);
	return 0;
}

static ssize_t comp_algorithm_show(struct device *dev,
				   struct device_attribute *attr, char *buf)
{
	struct zm_device *device = zm_device_of(dev);
	int size;

	down_read(&device->lock);
	size = names_show(device->codecs[0].ops, buf, 0);
	up_read(&device->lock);
	return size;
}

static ssize_t comp_algorithm_store(struct device *dev,
				    struct device_attribute *attr,
				    const char *buf, size_t len)
{
	int err = codec_set(zm_device_of(dev), 0, buf);

	return err ? err : len;
}
static DEVICE_ATTR_RW(comp_algorithm);

static ssize_t recomp_algorithm_show(struct device *dev,
				     struct device_attribute *attr, char *buf)
{
	struct zm_device *device = zm_device_of(dev);
	int i, size = 0;

	down_read(&device->lock);
	for (i = 1; i < ZM_PRIORITIES; i++) {
		if (!device->codecs[i].ops)
			continue;
		size += sysfs_emit_at(buf, size, "#%d: ", i);
		size += names_show(device->codecs[i].ops, buf, size);
	}
	up_read(&device->lock);
	return size;
}

/* "algo=NAME priority=N" */
static ssize_t recomp_algorithm_store(struct device *dev,
				      struct device_attribute *attr,
				      const char *buf, size_t len)
{
	struct zm_arguments arguments;
	const char *name = NULL;
	int priority = 1, err;

	err = zm_arguments_begin(&arguments, buf);
	if (err)
		return err;
	while (!err && zm_arguments_next(&arguments)) {
		if (zm_argument_is(&arguments, "algo"))
			name = arguments.value;
		else if (zm_argument_is(&arguments, "priority"))
			err = kstrtoint(arguments.value, 10, &priority);
		else
			err = -EINVAL;
	}
	if (!err && (!name || priority < 1 || priority >= ZM_PRIORITIES))
		err = -EINVAL;
	if (!err)
		err = codec_set(zm_device_of(dev), priority, name);
	zm_arguments_end(&arguments);
	return err ? err : len;
}
static DEVICE_ATTR_RW(recomp_algorithm);

/* -- Their parameters ------------------------------------------------------ */

/* "algo=NAME priority=N level=N" */
static ssize_t algorithm_params_store(struct device *dev,
				      struct device_attribute *attr,
				      const char *buf, size_t len)
{
	struct zm_device *device = zm_device_of(dev);
	int level = ZM_CODEC_LEVEL_DEFAULT, asked = 0, priority, err;
	struct zm_arguments arguments;
	const char *name = NULL;
	bool is_asked = false;

	err = zm_arguments_begin(&arguments, buf);
	if (err)
		return err;
	while (!err && zm_arguments_next(&arguments)) {
		if (zm_argument_is(&arguments, "algo")) {
			name = arguments.value;
		} else if (zm_argument_is(&arguments, "level")) {
			err = kstrtoint(arguments.value, 10, &level);
		} else if (zm_argument_is(&arguments, "priority")) {
			is_asked = true;
			err = kstrtoint(arguments.value, 10, &asked);
		} else {
			err = -EINVAL;
		}
	}
	if (!err)
		err = zm_device_lock_settings(device);
	if (!err) {
		priority = zm_codec_priority(device, name,
					     is_asked ? &asked : NULL, 0);
		if (priority < 0)
			err = priority;
		else
			device->codecs[priority].level = level;
		zm_device_unlock_settings(device);
	}
	zm_arguments_end(&arguments);
	return err ? err : len;
}
static DEVICE_ATTR_WO(algorithm_params);

static struct attribute *codec_attributes[] = {
	&dev_attr_comp_algorithm.attr,
	&dev_attr_algorithm_params.attr,
	&dev_attr_recomp_algorithm.attr,
	NULL,
};

const struct attribute_group zm_codec_group = {
	.attrs = codec_attributes,
};

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STUB_DEVICE_H
#define STUB_DEVICE_H

#include <linux/types.h>

struct class;
struct class_attribute {
	struct attribute attr;
#if KERNEL >= 604
	ssize_t (*show)(const struct class *class,
			const struct class_attribute *attr, char *buf);
#else
	ssize_t (*show)(struct class *class, struct class_attribute *attr,
			char *buf);
#endif
};

#endif

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * debugfs: zmeldN/block_state, a line for every stored page as zram prints it:
 * number, second of the last access, and what the page is:
 *
 *	s same-filled   w on the backing device   h stored raw   i idle
 *	r recompressed  n no codec helped
 */
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "device.h"

/* Longer than any line, the numbers as long as they can be. */
#define LINE_SIZE	64
/* As much as one read takes at the most: it bounds memory and time. */
#define READ_SIZE_MAX	(64 * 1024)

static struct dentry *debug_root;

static int line_print(char *text, u64 index, const struct zm_slot_info *info)
{
	return scnprintf(text, LINE_SIZE, "%12llu %12u.%06d %c%c%c%c%c%c\n",
			 index, info->accessed_s, 0,
			 info->kind == ZM_KIND_SAME ? 's' : '.',
			 info->backed ? 'w' : '.', info->huge ? 'h' : '.',
			 info->idle ? 'i' : '.', info->priority ? 'r' : '.',
			 info->incompressible ? 'n' : '.');
}

/* *at is a page of the device. The characters that fit, whole lines only. */
static size_t lines_print(struct zm_device *device, char *text, size_t size,
			  loff_t *at)
{
	struct zm_slot_info info;
	size_t used = 0;

	for (; *at < zm_device_pages(device); ++*at) {
		if (used + LINE_SIZE > size)
			break;
		if (*at % 4096 == 0)
			cond_resched();
		if (zm_slot_info(device->store, *at, &info) ||
		    info.kind == ZM_KIND_EMPTY)
			continue;
		used += line_print(text + used, *at, &info);
	}
	return used;
}

static ssize_t block_state_read(struct file *file, char __user *to,
				size_t size, loff_t *at)
{
	struct zm_device *device = file->private_data;
	loff_t index = *at;
	ssize_t used;
	char *text;

	size = min_t(size_t, size, READ_SIZE_MAX);
	text = kvmalloc(size, GFP_KERNEL);
	if (!text)
		return -ENOMEM;
	down_read(&device->lock);
	used = device->store ? lines_print(device, text, size, &index) :
			       -EINVAL;
	/* No room for a line, but there are more: that is not the end. */
	if (!used && index < zm_device_pages(device))
		used = -EINVAL;
	up_read(&device->lock);
	if (used > 0 && copy_to_user(to, text, used))
		used = -EFAULT;
	if (used >= 0)
		*at = index;
	kvfree(text);
	return used;
}

static const struct file_operations block_state = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = block_state_read,
	.llseek = default_llseek,
};

void zm_debug_create(void)
{
	debug_root = debugfs_create_dir(zm_stem(), NULL);
}

void zm_debug_destroy(void)
{
	debugfs_remove_recursive(debug_root);
}

void zm_debug_add(struct zm_device *device)
{
	device->debug_dir = debugfs_create_dir(device->disk->disk_name,
					       debug_root);
	debugfs_create_file("block_state", 0400, device->debug_dir, device,
			    &block_state);
}

void zm_debug_remove(struct zm_device *device)
{
	debugfs_remove_recursive(device->debug_dir);
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * debugfs, for root. zmeldN/block_state: a line for every stored page as zram
 * prints it, its number, second of the last access, and what the page is:
 *
 *	s same-filled   w on the backing device   h stored raw   i idle
 *	r recompressed  n no codec helped
 *
 * zmeldN/check: the walking check, which says in words what is wrong. While the disk
 * is open each slot is looked at by itself. Otherwise the check waits for what runs for
 * long, and then nobody can open it until everything is counted again and every page
 * decompressed.
 */
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/seq_file.h>
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

/*
 * *at is a page of the device. The characters that fit, whole lines only. -EINVAL:
 * not one fits; -EINTR: a signal came, or the device is going, before the first.
 */
static ssize_t lines_print(struct zm_device *device, char *text, size_t size,
			   loff_t *at)
{
	struct zm_slot_info info;
	char line[LINE_SIZE];
	ssize_t used = 0;
	int length;

	for (; *at < zm_device_pages(device); ++*at) {
		if (*at % 4096 == 0) {
			cond_resched();
			if (zm_device_must_stop(device))
				return used ?: -EINTR;
		}
		if (zm_slot_info(device->store, *at, &info) ||
		    info.kind == ZM_KIND_EMPTY)
			continue;
		length = line_print(line, *at, &info);
		if (used + length > size)
			return used ?: -EINVAL;
		memcpy(text + used, line, length);
		used += length;
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

/* -- Whether all is right --------------------------------------------------- */

/* What it says at the most. */
#define TEXT_SIZE 8192

/* Pages on the backing device are not read. */
static void all_right_print(struct zm_device *device, u32 level, char *text)
{
	struct zm_stats stats;

	zm_store_stats(device->store, &stats);
	if (level != ZM_CHECK_CONTENTS)
		strscpy(text,
			"every slot is right; the disk is open, so no more was looked at\n",
			TEXT_SIZE);
	else if (stats.pages_backed)
		scnprintf(text, TEXT_SIZE,
			  "every slot and counter is right, and every page in memory; %llu on the backing device were not read\n",
			  stats.pages_backed);
	else
		strscpy(text, "every slot, counter and page is right\n",
			TEXT_SIZE);
}

static int check_run(struct zm_device *device, u32 level, u64 stops_seen,
		     struct seq_file *file)
{
	char *text = kvmalloc(TEXT_SIZE, GFP_KERNEL);
	int err;

	if (!text)
		return -ENOMEM;
	err = zm_store_check(device->store, level, stops_seen, text,
			     TEXT_SIZE);
	if (!err)
		all_right_print(device, level, text);
	if (err == -EUCLEAN)
		err = 0;
	if (!err)
		seq_puts(file, text);
	kvfree(text);
	return err;
}

static int check_slots(struct zm_device *device, struct seq_file *file)
{
	u64 stops_seen;
	int err;

	err = zm_device_lock_beside(device, &stops_seen);
	if (err)
		return err;
	err = check_run(device, ZM_CHECK_SLOTS, stops_seen, file);
	zm_device_unlock(device);
	return err;
}

/*
 * What works on the store for long, too, moves what is counted: the check waits
 * for its turn, and only then keeps everybody from opening the disk. -EBUSY:
 * somebody opened it meanwhile.
 */
static int check_all(struct zm_device *device, struct seq_file *file)
{
	u64 stops_seen;
	int err;

	err = zm_device_lock_work(device, true, &stops_seen);
	if (err)
		return err;
	err = zm_device_claim(device);
	if (!err) {
		err = check_run(device, ZM_CHECK_CONTENTS, stops_seen, file);
		zm_device_unclaim(device);
	}
	zm_device_unlock_work(device);
	return err;
}

static int check_show(struct seq_file *file, void *unused)
{
	struct zm_device *device = file->private;
	int err = -EBUSY;

	/* Only a look: whether the disk is open now. */
	if (!zm_device_claim(device)) {
		zm_device_unclaim(device);
		err = check_all(device, file);
	}
	return err == -EBUSY ? check_slots(device, file) : err;
}
DEFINE_SHOW_ATTRIBUTE(check);

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
	debugfs_create_file("check", 0400, device->debug_dir, device,
			    &check_fops);
}

void zm_debug_remove(struct zm_device *device)
{
	debugfs_remove_recursive(device->debug_dir);
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The backing device and the settings of writeback, as attributes. What goes
 * there is in writeback.c, what comes back in reads.c.
 */
#define pr_fmt(fmt) "zmeld: " fmt

#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/kstrtox.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "device.h"

/* pre: no store uses it; the lock is held for writing, or nobody else is. */
void zm_backing_release(struct zm_device *device)
{
	if (!device->backing_file)
		return;
	zm_reads_destroy(device->reads);
	device->reads = NULL;
	filp_close(device->backing_file, NULL);
	device->backing_file = NULL;
	device->backing = NULL;
	device->backing_blocks = 0;
}

static ssize_t backing_dev_show(struct device *dev,
				struct device_attribute *attr, char *buf)
{
	struct zm_device *device = zm_device_of(dev);
	ssize_t size;
	char *path;

	down_read(&device->lock);
	if (device->backing_file) {
		path = file_path(device->backing_file, buf, PAGE_SIZE - 1);
		if (IS_ERR(path)) {
			size = PTR_ERR(path);
		} else {
			size = strlen(path);
			memmove(buf, path, size);
			buf[size++] = '\n';
		}
	} else {
		size = sysfs_emit(buf, "none\n");
	}
	up_read(&device->lock);
	return size;
}

/* Opened for us alone. The error is in the pointer. */
static struct file *backing_open(const char *path, u64 *blocks)
{
	struct file *file;
	struct inode *inode;
	int err;

	file = filp_open(path, O_RDWR | O_LARGEFILE | O_EXCL, 0);
	if (IS_ERR(file))
		return file;
	inode = file->f_mapping->host;
	if (!S_ISBLK(inode->i_mode)) {
		err = -ENOTBLK;
		goto close;
	}
	/* Of a device without a size this one would be the first case. */
	*blocks = i_size_read(inode) >> PAGE_SHIFT;
	if (!*blocks) {
		err = -EINVAL;
		goto close;
	}
	return file;

close:
	filp_close(file, NULL);
	return ERR_PTR(err);
}

/* The file is the device's from then on. pre: settings are locked. */
static int backing_replace(struct zm_device *device, struct file *file,
			   u64 blocks)
{
	struct zm_reads *reads;
	int err;

	err = zm_device_refuse_loop(device);
	if (err)
		return err;
	reads = zm_reads_create();
	if (!reads)
		return -ENOMEM;
	zm_backing_release(device);
	device->reads = reads;
	device->backing_file = file;
	device->backing = I_BDEV(file->f_mapping->host);
	device->backing_blocks = blocks;
	return 0;
}

static int backing_lock(struct zm_device *device)
{
	int err = zm_device_lock_settings(device);

	if (err == -EBUSY)
		dev_info_ratelimited(disk_to_dev(device->disk),
				     "the backing device is set before disksize: reset first\n");
	return err;
}

/* A file may be long in opening: without locks, and only if it would be taken. */
static int backing_set(struct zm_device *device, const char *path)
{
	struct file *file;
	u64 blocks;
	int err;

	err = backing_lock(device);
	if (err)
		return err;
	zm_device_unlock_settings(device);
	file = backing_open(path, &blocks);
	if (IS_ERR(file))
		return PTR_ERR(file);
	err = backing_lock(device);
	if (!err) {
		err = backing_replace(device, file, blocks);
		zm_device_unlock_settings(device);
	}
	if (err)
		filp_close(file, NULL);
	else
		dev_info(disk_to_dev(device->disk), "backing device %s\n",
			 path);
	return err;
}

static ssize_t backing_dev_store(struct device *dev,
				 struct device_attribute *attr,
				 const char *buf, size_t len)
{
	char *path = kstrdup(buf, GFP_KERNEL);
	size_t size;
	int err;

	if (!path)
		return -ENOMEM;
	/* One newline, that of echo, is not of the name; nor is what follows a NUL. */
	size = strlen(path);
	if (size && path[size - 1] == '\n')
		path[size - 1] = '\0';
	err = backing_set(zm_device_of(dev), path);
	kfree(path);
	return err ? err : len;
}
static DEVICE_ATTR_RW(backing_dev);

static ssize_t bd_stat_show(struct device *dev, struct device_attribute *attr,
			    char *buf)
{
	struct zm_device *device = zm_device_of(dev);
	struct zm_stats stats = {};
	ssize_t size;

	down_read(&device->lock);
	if (device->store)
		zm_store_stats(device->store, &stats);
	zm_stats_for_all(&stats);
	size = sysfs_emit(buf, "%8llu %8llu %8llu\n",
			  ZM_UNITS_PER_PAGE * stats.blocks_used,
			  ZM_UNITS_PER_PAGE *
			  (u64)atomic64_read(&device->backing_reads),
			  ZM_UNITS_PER_PAGE *
			  (u64)atomic64_read(&device->backing_writes));
	up_read(&device->lock);
	return size;
}
static DEVICE_ATTR_RO(bd_stat);

static ssize_t compressed_writeback_show(struct device *dev,
					 struct device_attribute *attr,
					 char *buf)
{
	struct zm_device *device = zm_device_of(dev);
	bool compressed;

	down_read(&device->lock);
	compressed = device->compressed_writeback;
	up_read(&device->lock);
	return sysfs_emit(buf, "%d\n", compressed);
}

static ssize_t compressed_writeback_store(struct device *dev,
					  struct device_attribute *attr,
					  const char *buf, size_t len)
{
	struct zm_device *device = zm_device_of(dev);
	bool compressed;
	int err;

	if (kstrtobool(buf, &compressed))
		return -EINVAL;
	err = zm_device_lock_settings(device);
	if (err)
		return err;
	device->compressed_writeback = compressed;
	zm_device_unlock_settings(device);
	return len;
}
static DEVICE_ATTR_RW(compressed_writeback);

static ssize_t writeback_limit_enable_show(struct device *dev,
					   struct device_attribute *attr,
					   char *buf)
{
	return sysfs_emit(buf, "%d\n",
			  READ_ONCE(zm_device_of(dev)->writeback_limited));
}

static ssize_t writeback_limit_enable_store(struct device *dev,
					    struct device_attribute *attr,
					    const char *buf, size_t len)
{
	struct zm_device *device = zm_device_of(dev);
	u64 value;

	if (kstrtou64(buf, 10, &value))
		return -EINVAL;
	spin_lock(&device->limit_lock);
	WRITE_ONCE(device->writeback_limited, value != 0);
	spin_unlock(&device->limit_lock);
	return len;
}
static DEVICE_ATTR_RW(writeback_limit_enable);

static ssize_t writeback_limit_show(struct device *dev,
				    struct device_attribute *attr, char *buf)
{
	struct zm_device *device = zm_device_of(dev);
	u64 left;

	spin_lock(&device->limit_lock);
	left = device->writeback_left;
	spin_unlock(&device->limit_lock);
	return sysfs_emit(buf, "%llu\n", left);
}

/* In units of 4 KiB, of which a page may have several. */
static ssize_t writeback_limit_store(struct device *dev,
				     struct device_attribute *attr,
				     const char *buf, size_t len)
{
	struct zm_device *device = zm_device_of(dev);
	u64 value;

	if (kstrtou64(buf, 10, &value))
		return -EINVAL;
	spin_lock(&device->limit_lock);
	device->writeback_left = round_down(value, ZM_UNITS_PER_PAGE);
	device->limits_set++;
	spin_unlock(&device->limit_lock);
	return len;
}
static DEVICE_ATTR_RW(writeback_limit);

static ssize_t writeback_batch_size_show(struct device *dev,
					 struct device_attribute *attr,
					 char *buf)
{
	return sysfs_emit(buf, "%u\n",
			  READ_ONCE(zm_device_of(dev)->writeback_batch));
}

static ssize_t writeback_batch_size_store(struct device *dev,
					  struct device_attribute *attr,
					  const char *buf, size_t len)
{
	u32 value;

	if (kstrtouint(buf, 10, &value) || !value ||
	    value > ZM_WRITEBACK_BATCH_MAX)
		return -EINVAL;
	WRITE_ONCE(zm_device_of(dev)->writeback_batch, value);
	return len;
}
static DEVICE_ATTR_RW(writeback_batch_size);

static struct attribute *backing_attributes[] = {
	&dev_attr_bd_stat.attr,
	&dev_attr_backing_dev.attr,
	&dev_attr_writeback_limit.attr,
	&dev_attr_writeback_limit_enable.attr,
	&dev_attr_writeback_batch_size.attr,
	&dev_attr_compressed_writeback.attr,
	NULL,
};

const struct attribute_group zm_backing_group = {
	.attrs = backing_attributes,
};

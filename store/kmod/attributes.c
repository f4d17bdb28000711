// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The plain attributes: size, limits, idle marks, statistics. Names, formats
 * and errors are zram's; docs/abi/sysfs-block-zmeld says what they mean.
 */
#include <linux/capability.h>
#include <linux/cpumask.h>
#include <linux/cred.h>
#include <linux/kernel.h>
#include <linux/kstrtox.h>

#include "device.h"

static ssize_t disksize_show(struct device *dev, struct device_attribute *attr,
			     char *buf)
{
	struct zm_device *device = zm_device_of(dev);
	u64 disksize;

	down_read(&device->lock);
	disksize = device->disksize;
	up_read(&device->lock);
	return sysfs_emit(buf, "%llu\n", disksize);
}

static ssize_t disksize_store(struct device *dev,
			      struct device_attribute *attr,
			      const char *buf, size_t len)
{
	int err = zm_device_init(zm_device_of(dev), memparse(buf, NULL));

	return err ? err : len;
}
static DEVICE_ATTR_RW(disksize);

static ssize_t initstate_show(struct device *dev,
			      struct device_attribute *attr, char *buf)
{
	struct zm_device *device = zm_device_of(dev);
	bool initialised;

	down_read(&device->lock);
	initialised = device->store;
	up_read(&device->lock);
	return sysfs_emit(buf, "%u\n", initialised);
}
static DEVICE_ATTR_RO(initstate);

static ssize_t reset_store(struct device *dev, struct device_attribute *attr,
			   const char *buf, size_t len)
{
	u16 asked;
	int err;

	err = kstrtou16(buf, 10, &asked);
	if (err)
		return err;
	if (!asked)
		return -EINVAL;
	err = zm_device_reset(zm_device_of(dev));
	return err ? err : len;
}
static DEVICE_ATTR_WO(reset);

static ssize_t mem_limit_store(struct device *dev,
			       struct device_attribute *attr,
			       const char *buf, size_t len)
{
	struct zm_device *device = zm_device_of(dev);
	char *end;
	u64 limit = memparse(buf, &end);

	if (end == buf)
		return -EINVAL;
	/* What no number of whole pages holds is no limit. */
	limit = round_up(limit, PAGE_SIZE);
	down_read(&device->lock);
	/* Of two writers the same one is last in both. */
	spin_lock(&device->limit_lock);
	WRITE_ONCE(device->memory_limit, limit);
	if (device->store)
		zm_store_limit_set(device->store, limit);
	spin_unlock(&device->limit_lock);
	up_read(&device->lock);
	return len;
}
static DEVICE_ATTR_WO(mem_limit);

static ssize_t mem_used_max_store(struct device *dev,
				  struct device_attribute *attr,
				  const char *buf, size_t len)
{
	struct zm_device *device = zm_device_of(dev);
	unsigned long value;

	if (kstrtoul(buf, 10, &value) || value)
		return -EINVAL;
	down_read(&device->lock);
	if (device->store)
		zm_store_peak_reset(device->store);
	up_read(&device->lock);
	return len;
}
static DEVICE_ATTR_WO(mem_used_max);

static ssize_t compact_store(struct device *dev, struct device_attribute *attr,
			     const char *buf, size_t len)
{
	struct zm_device *device = zm_device_of(dev);
	int err = -EINVAL;

	down_read(&device->lock);
	if (device->store) {
		zm_store_compact(device->store);
		err = 0;
	}
	up_read(&device->lock);
	return err ? err : len;
}
static DEVICE_ATTR_WO(compact);

/* "all", or an age in seconds: what was not accessed for so long. */
static ssize_t idle_store(struct device *dev, struct device_attribute *attr,
			  const char *buf, size_t len)
{
	struct zm_device *device = zm_device_of(dev);
	u64 stops_seen;
	u32 age_s = 0;
	int err;

	if (!sysfs_streq(buf, "all") && kstrtouint(buf, 0, &age_s))
		return -EINVAL;
	err = zm_device_lock_beside(device, &stops_seen);
	if (err)
		return err;
	err = zm_idle_mark(device->store, age_s, stops_seen);
	zm_device_unlock(device);
	return err ? err : len;
}
static DEVICE_ATTR_WO(idle);

/*
 * Older zram had it. There is one stream for each processor; what is written
 * is not used, as there.
 */
static ssize_t max_comp_streams_show(struct device *dev,
				     struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", num_online_cpus());
}

static ssize_t max_comp_streams_store(struct device *dev,
				      struct device_attribute *attr,
				      const char *buf, size_t len)
{
	return len;
}
static DEVICE_ATTR_RW(max_comp_streams);

/* -- Statistics ------------------------------------------------------------ */

static ssize_t io_stat_show(struct device *dev, struct device_attribute *attr,
			    char *buf)
{
	struct zm_device *device = zm_device_of(dev);
	ssize_t size;

	down_read(&device->lock);
	size = sysfs_emit(buf, "%8llu %8llu 0 %8llu\n",
			  (u64)atomic64_read(&device->failed_reads),
			  (u64)atomic64_read(&device->failed_writes),
			  (u64)atomic64_read(&device->notify_free));
	up_read(&device->lock);
	return size;
}
static DEVICE_ATTR_RO(io_stat);

/*
 * What any user may know. zram's tools read this file without being root, so it
 * stays readable; but the sum of the objects' sizes would tell, to the byte and
 * at each write, whether the page just written had a twin. To others than root
 * it is therefore the sum as it would be if nothing shared: what zram would say.
 * What the pool takes is told as it is, for /proc/vmstat (nr_zspages) tells it,
 * too. bd_stat's blocks would tell at a discard whether the page was shared: to
 * others they are the pages in them. docs/melding.md says what follows from that.
 */
void zm_stats_for_all(struct zm_stats *stats)
{
	if (ns_capable_noaudit(&init_user_ns, CAP_SYS_ADMIN))
		return;
	stats->bytes_compressed += stats->bytes_melded;
	stats->blocks_used = stats->pages_backed;
}

static ssize_t mm_stat_show(struct device *dev, struct device_attribute *attr,
			    char *buf)
{
	struct zm_device *device = zm_device_of(dev);
	struct zm_stats stats = {};
	u64 compacted = 0;
	ssize_t size;

	down_read(&device->lock);
	if (device->store) {
		zm_store_stats(device->store, &stats);
		compacted = zm_store_compacted(device->store);
	}
	zm_stats_for_all(&stats);
	size = sysfs_emit(buf,
			  "%8llu %8llu %8llu %8llu %8llu %8llu %8llu %8llu %8llu\n",
			  stats.pages_stored << PAGE_SHIFT,
			  stats.bytes_compressed, stats.memory_used,
			  READ_ONCE(device->memory_limit),
			  stats.memory_used_max, stats.pages_same,
			  compacted >> PAGE_SHIFT,
			  stats.pages_raw, stats.raw_since);
	up_read(&device->lock);
	return size;
}
static DEVICE_ATTR_RO(mm_stat);

/* Frees are never missed here; the place of their number is kept. */
static ssize_t debug_stat_show(struct device *dev,
			       struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "version: 1\n0 %8u\n", 0);
}
static DEVICE_ATTR_RO(debug_stat);

static struct attribute *plain_attributes[] = {
	&dev_attr_disksize.attr,
	&dev_attr_initstate.attr,
	&dev_attr_reset.attr,
	&dev_attr_compact.attr,
	&dev_attr_mem_limit.attr,
	&dev_attr_mem_used_max.attr,
	&dev_attr_idle.attr,
	&dev_attr_max_comp_streams.attr,
	&dev_attr_io_stat.attr,
	&dev_attr_mm_stat.attr,
	&dev_attr_debug_stat.attr,
	NULL,
};

const struct attribute_group zm_plain_group = {
	.attrs = plain_attributes,
};

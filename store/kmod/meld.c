// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Melding, as its attributes show it: the pass, the mode, what came of it, and
 * checking pages when they are read and when they are written.
 *
 * A pass runs in the context of whoever writes "start" and ends early by
 * "stop", by a signal, by its own time limit, or because the device is reset.
 *
 * When a pass runs, and what it and the writes found, tells whether somebody
 * else's page is equal to one's own: `meld` and `meld_stat` are root's alone.
 */
#include <linux/kernel.h>
#include <linux/kstrtox.h>
#include <linux/string.h>

#include "device.h"

/* -- The pass -------------------------------------------------------------- */

static int option_parse(const struct zm_arguments *arguments,
			struct zm_meld_options *options)
{
	char *end;
	u64 ms;

	if (!arguments->value && !strcmp(arguments->key, "resume")) {
		options->resume = true;
		return 0;
	}
	if (zm_argument_is(arguments, "threshold")) {
		if (kstrtou32(arguments->value, 10,
			      &options->threshold_permille) ||
		    options->threshold_permille > 1000)
			return -EINVAL;
		return 0;
	}
	if (zm_argument_is(arguments, "memory")) {
		options->memory_max = memparse(arguments->value, &end);
		return end == arguments->value || *end ? -EINVAL : 0;
	}
	if (zm_argument_is(arguments, "time_ms")) {
		if (kstrtou64(arguments->value, 10, &ms) ||
		    ms > U64_MAX / NSEC_PER_MSEC)
			return -EINVAL;
		options->time_ns_max = ms * NSEC_PER_MSEC;
		return 0;
	}
	return -EINVAL;
}

/* "start" with options, or "estimate" alone. */
static int options_parse(const char *text, struct zm_meld_options *options)
{
	struct zm_arguments arguments;
	int err;

	err = zm_arguments_begin(&arguments, text);
	if (err)
		return err;
	err = -EINVAL;
	if (zm_arguments_next(&arguments) && !arguments.value) {
		options->estimate_only = !strcmp(arguments.key, "estimate");
		if (options->estimate_only || !strcmp(arguments.key, "start"))
			err = 0;
	}
	while (!err && zm_arguments_next(&arguments))
		err = options->estimate_only ? -EINVAL :
					       option_parse(&arguments, options);
	zm_arguments_end(&arguments);
	return err;
}

static int pass_run(struct zm_device *device, struct zm_meld_options *options)
{
	struct zm_meld_result result = {};
	int err;

	err = zm_device_lock_work(device, false, &options->stops_seen);
	if (err)
		return err;
	WRITE_ONCE(device->pass_runs, true);
	err = zm_meld_run(device->store, options, &result);
	WRITE_ONCE(device->pass_runs, false);
	if (!err) {
		mutex_lock(&device->result_lock);
		device->result = result;
		device->result_known = true;
		mutex_unlock(&device->result_lock);
		if (result.stopped && zm_device_must_stop(device))
			err = -EINTR;
	}
	zm_device_unlock_work(device);
	return err;
}

static int pass_stop(struct zm_device *device)
{
	int err = -EINVAL;

	down_read(&device->lock);
	if (device->store) {
		zm_pass_stop(device->store);
		err = 0;
	}
	up_read(&device->lock);
	return err;
}

static ssize_t meld_show(struct device *dev, struct device_attribute *attr,
			 char *buf)
{
	struct zm_device *device = zm_device_of(dev);

	return sysfs_emit(buf, "%s\n", READ_ONCE(device->pass_runs) ?
				       "running" : "idle");
}

static ssize_t meld_store(struct device *dev, struct device_attribute *attr,
			  const char *buf, size_t len)
{
	struct zm_device *device = zm_device_of(dev);
	struct zm_meld_options options = {};
	int err;

	if (sysfs_streq(buf, "stop")) {
		err = pass_stop(device);
	} else {
		err = options_parse(buf, &options);
		if (!err)
			err = pass_run(device, &options);
	}
	return err ? err : len;
}
static DEVICE_ATTR_ADMIN_RW(meld);

/* -- Modes ----------------------------------------------------------------- */

/*
 * For who changes how the device melds. A pass does not keep them waiting, only
 * each other. -EINTR: a signal came first.
 */
static int mode_lock(struct zm_device *device)
{
	down_read(&device->lock);
	if (!mutex_lock_killable(&device->mode_lock))
		return 0;
	up_read(&device->lock);
	return -EINTR;
}

static void mode_unlock(struct zm_device *device)
{
	mutex_unlock(&device->mode_lock);
	up_read(&device->lock);
}

static ssize_t meld_mode_show(struct device *dev,
			      struct device_attribute *attr, char *buf)
{
	u32 mode, chosen = READ_ONCE(zm_device_of(dev)->meld_mode);
	ssize_t size = 0;

	for (mode = ZM_MELD_OFF; mode <= ZM_MELD_INLINE; mode++)
		size += sysfs_emit_at(buf, size,
				      mode == chosen ? "[%s] " : "%s ",
				      zm_meld_mode_name(mode));
	return size + sysfs_emit_at(buf, size, "\n");
}

/* The mode of that name, or -EINVAL. */
int zm_meld_mode_find(const char *name)
{
	u32 mode;

	for (mode = ZM_MELD_OFF; mode <= ZM_MELD_INLINE; mode++)
		if (sysfs_streq(name, zm_meld_mode_name(mode)))
			return mode;
	return -EINVAL;
}

static ssize_t meld_mode_store(struct device *dev,
			       struct device_attribute *attr,
			       const char *buf, size_t len)
{
	struct zm_device *device = zm_device_of(dev);
	int mode = zm_meld_mode_find(buf), err;

	if (mode < 0)
		return mode;
	err = mode_lock(device);
	if (err)
		return err;
	if (device->store)
		err = zm_meld_mode_set(device->store, mode);
	if (!err)
		WRITE_ONCE(device->meld_mode, mode);
	mode_unlock(device);
	return err ? err : len;
}
static DEVICE_ATTR_RW(meld_mode);

/* -- Checking reads and writes --------------------------------------------- */

static ssize_t verify_show(struct device *dev, struct device_attribute *attr,
			   char *buf)
{
	return sysfs_emit(buf, "%d\n", READ_ONCE(zm_device_of(dev)->verify));
}

static ssize_t verify_store(struct device *dev, struct device_attribute *attr,
			    const char *buf, size_t len)
{
	struct zm_device *device = zm_device_of(dev);
	bool verify;
	int err;

	if (kstrtobool(buf, &verify))
		return -EINVAL;
	err = mode_lock(device);
	if (err)
		return err;
	WRITE_ONCE(device->verify, verify);
	if (device->store)
		zm_store_verify_set(device->store, verify);
	mode_unlock(device);
	return len;
}
static DEVICE_ATTR_RW(verify);

static ssize_t check_writes_show(struct device *dev,
				 struct device_attribute *attr, char *buf)
{
	u32 value, chosen = READ_ONCE(zm_device_of(dev)->check_writes);
	ssize_t size = 0;

	for (value = ZM_CHECK_WRITES_AUTO; value <= ZM_CHECK_WRITES_OFF; value++)
		size += sysfs_emit_at(buf, size,
				      value == chosen ? "[%s] " : "%s ",
				      zm_check_writes_name(value));
	return size + sysfs_emit_at(buf, size, "\n");
}

/* The value of that name, or -EINVAL. */
int zm_check_writes_find(const char *name)
{
	u32 value;

	for (value = ZM_CHECK_WRITES_AUTO; value <= ZM_CHECK_WRITES_OFF; value++)
		if (sysfs_streq(name, zm_check_writes_name(value)))
			return value;
	return -EINVAL;
}

static ssize_t check_writes_store(struct device *dev,
				  struct device_attribute *attr,
				  const char *buf, size_t len)
{
	struct zm_device *device = zm_device_of(dev);
	int value = zm_check_writes_find(buf), err;

	if (value < 0)
		return value;
	err = mode_lock(device);
	if (err)
		return err;
	WRITE_ONCE(device->check_writes, value);
	if (device->store)
		err = zm_store_check_writes_set(device->store, value);
	mode_unlock(device);
	return err ? err : len;
}
static DEVICE_ATTR_RW(check_writes);

/* -- What came of it ------------------------------------------------------- */

#define LINE(name, value) \
	(size += sysfs_emit_at(buf, size, "%-24s %llu\n", name, (u64)(value)))

static u64 hits_permille(const struct zm_stats *stats)
{
	u64 hits = stats->inline_melded + stats->inline_unchanged;

	return stats->inline_probes ?
		div64_u64(hits * 1000, stats->inline_probes) : 0;
}

static ssize_t totals_show(const struct zm_stats *stats, u64 pass_time_ns,
			   char *buf, ssize_t size)
{
	u64 saved = stats->bytes_melded - stats->shares * ZM_SHARE_BYTES;

	/* Shares of one save nothing and have their price: may be below 0. */
	LINE("pages_melded", stats->pages_melded);
	size += sysfs_emit_at(buf, size, "%-24s %lld\n", "bytes_saved",
			      (s64)saved);
	LINE("objects_shared", stats->shares);
	LINE("pass_time_ns", pass_time_ns);
	LINE("hit_rate_permille", hits_permille(stats));
	LINE("pages_shared", stats->pages_shared);
	LINE("bytes_melded", stats->bytes_melded);
	LINE("memory_metadata", stats->memory_metadata);
	LINE("passes", stats->passes);
	LINE("passes_melded", stats->pass_melded);
	LINE("inline_active", stats->inline_active);
	LINE("inline_probes", stats->inline_probes);
	LINE("inline_melded", stats->inline_melded);
	LINE("inline_unchanged", stats->inline_unchanged);
	LINE("inline_collisions", stats->inline_collisions);
	LINE("auto_switches", stats->auto_switches);
	LINE("mismatches", stats->mismatches);
	LINE("damaged", stats->damaged);
	return size;
}

static ssize_t pass_show(const struct zm_meld_result *result, char *buf,
			 ssize_t size)
{
	LINE("pass_pages_stored", result->pages_stored);
	LINE("pass_pages_sampled", result->pages_sampled);
	LINE("pass_duplicates_sampled", result->duplicates_sampled);
	LINE("pass_candidates", result->candidates);
	LINE("pass_pages_melded", result->pages_melded);
	LINE("pass_bytes_saved", result->bytes_saved);
	LINE("pass_bytes_metadata", result->bytes_metadata);
	LINE("pass_collisions", result->collisions);
	LINE("pass_raced", result->raced);
	LINE("pass_pages_backed", result->pages_backed);
	LINE("pass_pages_crowded", result->pages_crowded);
	LINE("pass_pages_unfingerprinted", result->pages_unfingerprinted);
	LINE("pass_memory_borrowed", result->memory_borrowed);
	LINE("pass_rounds", result->rounds);
	LINE("pass_time_sample_ns", result->time_sample_ns);
	LINE("pass_time_find_ns", result->time_find_ns);
	LINE("pass_time_meld_ns", result->time_meld_ns);
	LINE("pass_below_threshold", result->below_threshold);
	LINE("pass_stopped", result->stopped);
	return size;
}

static ssize_t meld_stat_show(struct device *dev,
			      struct device_attribute *attr, char *buf)
{
	struct zm_device *device = zm_device_of(dev);
	struct zm_meld_result result = {};
	struct zm_stats stats = {};
	ssize_t size;

	down_read(&device->lock);
	if (device->store)
		zm_store_stats(device->store, &stats);
	mutex_lock(&device->result_lock);
	if (device->result_known)
		result = device->result;
	mutex_unlock(&device->result_lock);
	up_read(&device->lock);
	size = totals_show(&stats, result.time_sample_ns +
			   result.time_find_ns + result.time_meld_ns, buf, 0);
	size = pass_show(&result, buf, size);
	LINE("encode_errors", stats.encode_errors);
	return size;
}
static DEVICE_ATTR_ADMIN_RO(meld_stat);

static struct attribute *meld_attributes[] = {
	&dev_attr_meld.attr,
	&dev_attr_meld_mode.attr,
	&dev_attr_meld_stat.attr,
	&dev_attr_verify.attr,
	&dev_attr_check_writes.attr,
	NULL,
};

const struct attribute_group zm_meld_group = {
	.attrs = meld_attributes,
};

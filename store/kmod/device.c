// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A device's life: its disk appears, gets a size and with it a store, loses
 * both by reset, and goes.
 *
 * Invariants:
 *   - a disk without a store has no capacity, so no bio reaches it;
 *   - the store ends only after the disk was claimed with nobody having it
 *     open;
 *   - once it is being removed a device gets no store and no setting any more,
 *     and no long operation begins;
 *   - after a failed set-up the device is as it was before, but for codecs that refused
 *     what was asked of them: they are the default again.
 */
#define pr_fmt(fmt) "zmeld: " fmt

#include <linux/part_stat.h>
#include <linux/slab.h>

#include "device.h"

static const struct attribute_group *zm_groups[] = {
	&zm_plain_group,
	&zm_codec_group,
	&zm_backing_group,
	&zm_writeback_group,
	&zm_recompress_group,
	&zm_meld_group,
	NULL,
};

/* What may be chosen at any time, as it is before anyone did. */
static void choices_reset(struct zm_device *device)
{
	WRITE_ONCE(device->memory_limit, 0);
	WRITE_ONCE(device->meld_mode, zm_meld_mode_default);
	WRITE_ONCE(device->verify, false);
	WRITE_ONCE(device->check_writes, zm_check_writes_default);
}

static void statistics_reset(struct zm_device *device)
{
	atomic64_set(&device->failed_reads, 0);
	atomic64_set(&device->failed_writes, 0);
	atomic64_set(&device->notify_free, 0);
	atomic64_set(&device->backing_reads, 0);
	atomic64_set(&device->backing_writes, 0);
	mutex_lock(&device->result_lock);
	device->result_known = false;
	mutex_unlock(&device->result_lock);
}

/*
 * Takes the store from the device, with what was chosen and counted for it: what is
 * chosen from then on is for the next. pre: nobody has the disk open.
 */
static struct zm_store *store_take(struct zm_device *device)
{
	struct zm_store *store;

	down_write(&device->lock);
	store = device->store;
	set_capacity_and_notify(device->disk, 0);
	part_stat_set_all(device->disk->part0, 0);
	device->store = NULL;
	WRITE_ONCE(device->disksize, 0);
	choices_reset(device);
	statistics_reset(device);
	up_write(&device->lock);
	return store;
}

/* Asks what runs for long to end, until device_end() is through. */
static void device_stop(struct zm_device *device)
{
	WRITE_ONCE(device->stop, true);
	/* Pairs with that of lock_work(): who misses this sees the next. */
	smp_wmb();
	down_read(&device->lock);
	if (device->store)
		zm_pass_stop(device->store);
	up_read(&device->lock);
}

/*
 * Ends what runs, then everything the device holds. Whoever calls this has
 * made sure that the disk is not open and will not be.
 */
static void device_end(struct zm_device *device)
{
	device_stop(device);
	mutex_lock(&device->settings);
	/* Without the lock: to free millions of pages takes seconds. */
	zm_store_destroy(store_take(device));
	down_write(&device->lock);
	zm_codecs_reset(device);
	zm_backing_release(device);
	WRITE_ONCE(device->stop, READ_ONCE(device->removing));
	up_write(&device->lock);
	mutex_unlock(&device->settings);
}

/* pre: lock is held. */
static int settings_refused(const struct zm_device *device)
{
	if (READ_ONCE(device->removing))
		return -ENODEV;
	return device->store ? -EBUSY : 0;
}

static int settings_look(struct zm_device *device)
{
	int err;

	if (down_read_killable(&device->lock))
		return -EINTR;
	err = settings_refused(device);
	up_read(&device->lock);
	return err;
}

/* pre: the settings' mutex is held, so that no store appears. */
static int settings_lock(struct zm_device *device)
{
	int err = settings_look(device);

	if (err)
		return err;
	if (down_write_killable(&device->lock))
		return -EINTR;
	err = settings_refused(device);
	if (err)
		up_write(&device->lock);
	return err;
}

/*
 * To change what a store is made with: -EBUSY where there is one, -ENODEV where
 * the device is going, -EINTR where a signal ends the caller. Nobody waits here for
 * a pass to end, and nobody who comes to stop one waits behind us: the lock is
 * queued for only where there is no store to work on, and whoever would make one
 * waits for the mutex.
 */
int zm_device_lock_settings(struct zm_device *device)
{
	int err;

	if (mutex_lock_killable(&device->settings))
		return -EINTR;
	err = settings_lock(device);
	if (err)
		mutex_unlock(&device->settings);
	return err;
}

void zm_device_unlock_settings(struct zm_device *device)
{
	up_write(&device->lock);
	mutex_unlock(&device->settings);
}

/*
 * To work on the store for long: one at a time, the others wait as zram's do,
 * or get -EBUSY if they do not want to. -EINVAL: not initialised; -EINTR: a
 * signal came, or the device is going. *stops_seen is for the work's options:
 * who wants it to end once it is its turn is not missed; a stop that was meant for
 * what it waited for does not end it.
 */
int zm_device_lock_work(struct zm_device *device, bool wait, u64 *stops_seen)
{
	int err = -EINVAL;

	down_read(&device->lock);
	if (!device->store)
		goto unlock;
	err = -EBUSY;
	if (!wait && !mutex_trylock(&device->work))
		goto unlock;
	err = -EINTR;
	if (wait && mutex_lock_killable(&device->work))
		goto unlock;
	*stops_seen = zm_pass_stops(device->store);
	/* Pairs with that of device_stop(), which sets `stop` and then counts. */
	smp_rmb();
	if (!READ_ONCE(device->stop))
		return 0;
	mutex_unlock(&device->work);
unlock:
	up_read(&device->lock);
	return err;
}

/*
 * To look at all of the store beside whatever works on it: errors and *stops_seen
 * as above, but nobody is waited for. Ends with zm_device_unlock().
 */
int zm_device_lock_beside(struct zm_device *device, u64 *stops_seen)
{
	int err = -EINVAL;

	down_read(&device->lock);
	if (!device->store)
		goto unlock;
	*stops_seen = zm_pass_stops(device->store);
	/* As in zm_device_lock_work(). */
	smp_rmb();
	err = -EINTR;
	if (!READ_ONCE(device->stop))
		return 0;
unlock:
	up_read(&device->lock);
	return err;
}

void zm_device_unlock(struct zm_device *device)
{
	up_read(&device->lock);
}

void zm_device_unlock_work(struct zm_device *device)
{
	mutex_unlock(&device->work);
	zm_device_unlock(device);
}

/* Choices that may change while a store is made, as they are now. */
static void choices_take(const struct zm_device *device,
			 struct zm_store_options *options)
{
	options->memory_limit = READ_ONCE(device->memory_limit);
	options->mode = READ_ONCE(device->meld_mode);
	options->verify = READ_ONCE(device->verify);
	options->check_writes = READ_ONCE(device->check_writes);
}

static bool choices_differ(const struct zm_store_options *a,
			   const struct zm_store_options *b)
{
	return a->memory_limit != b->memory_limit || a->mode != b->mode ||
	       a->verify != b->verify || a->check_writes != b->check_writes;
}

/* pre: the settings' mutex is held. */
static int store_make(struct zm_device *device,
		      struct zm_store_options *options, struct zm_store **store)
{
	int err;

	/* As zram, whose table would be too large. */
	if (options->slots > ZM_SLOTS_MAX)
		return -ENOMEM;
	zm_codecs_choose(device, options);
	choices_take(device, options);
	err = zm_store_create(options, store);
	if (err || !device->backing_file)
		return err;
	err = zm_backing_attach(*store, device->backing_blocks);
	if (err)
		zm_store_destroy(*store);
	return err;
}

/*
 * -EBUSY where the disk is part of another one, as of dm's: a backing device that
 * stands on that would be written over itself. pre: the lock is held.
 */
int zm_device_refuse_loop(struct zm_device *device)
{
	if (!READ_ONCE(device->disk->part0->bd_holder))
		return 0;
	dev_info_ratelimited(disk_to_dev(device->disk),
			     "a backing device could stand on this disk, which is part of another: take that apart first\n");
	return -EBUSY;
}

/*
 * Makes a store and gives it to the device. Tables of gigabytes take seconds, in which
 * nobody who looks at the device is kept waiting: so it is made without the lock. -EAGAIN:
 * a choice that it was made with has changed since. pre: the settings' mutex is held.
 */
static int store_give(struct zm_device *device, u64 disksize)
{
	struct zm_store_options options = { .slots = disksize >> PAGE_SHIFT };
	struct zm_store_options now = {};
	struct zm_store *store = NULL;
	int made, err;

	err = settings_look(device);
	if (err)
		return err;
	made = store_make(device, &options, &store);
	err = settings_lock(device);
	if (err)
		goto destroy;
	/* As zram: what a codec refused is not asked of it again. */
	if (made == -EINVAL)
		zm_codecs_reset(device);
	choices_take(device, &now);
	err = made;
	if (!err && choices_differ(&options, &now))
		err = -EAGAIN;
	if (!err && device->backing_file)
		err = zm_device_refuse_loop(device);
	if (err)
		goto unlock;
	device->store = store;
	WRITE_ONCE(device->disksize, disksize);
	/* Pairs with that of submit(): a disk may be open already. */
	smp_wmb();
	set_capacity_and_notify(device->disk, disksize >> SECTOR_SHIFT);
unlock:
	up_write(&device->lock);
destroy:
	if (err && !made)
		zm_store_destroy(store);
	return err;
}

/*
 * Gives the device its size and a store. -EBUSY: it has one; -EINVAL: no
 * size, or a codec refuses its parameters; -ENOMEM, also for too large a size.
 */
int zm_device_init(struct zm_device *device, u64 disksize)
{
	int err;

	/* Rounding up must not come out at nothing. */
	if (!disksize || disksize > ULLONG_MAX - PAGE_SIZE)
		return -EINVAL;
	disksize = round_up(disksize, PAGE_SIZE);
	if (mutex_lock_killable(&device->settings))
		return -EINTR;
	do {
		err = store_give(device, disksize);
		if (err == -EAGAIN && fatal_signal_pending(current))
			err = -EINTR;
	} while (err == -EAGAIN);
	mutex_unlock(&device->settings);
	if (err == -EBUSY && READ_ONCE(device->disksize))
		dev_info_ratelimited(disk_to_dev(device->disk),
				     "disksize is set already: reset the device first\n");
	else if (err && err != -EINTR && err != -ENODEV)
		dev_err(disk_to_dev(device->disk),
			"no store of %llu bytes could be made: error %d\n",
			disksize, err);
	return err;
}

/*
 * Keeps everybody from opening the disk. -EBUSY while somebody has it open, or
 * has claimed it.
 */
int zm_device_claim(struct zm_device *device)
{
	struct gendisk *disk = device->disk;
	int err = 0;

	mutex_lock(&disk->open_mutex);
	if (disk_openers(disk) || device->claimed || device->removing)
		err = -EBUSY;
	else
		device->claimed = true;
	mutex_unlock(&disk->open_mutex);
	return err;
}

void zm_device_unclaim(struct zm_device *device)
{
	struct gendisk *disk = device->disk;

	mutex_lock(&disk->open_mutex);
	device->claimed = false;
	mutex_unlock(&disk->open_mutex);
}

/* -EBUSY while somebody has the disk open, and while another reset runs. */
int zm_device_reset(struct zm_device *device)
{
	int err = zm_device_claim(device);

	if (err)
		return err;
	sync_blockdev(device->disk->part0);
	device_end(device);
	zm_device_unclaim(device);
	return 0;
}

static void device_free(struct zm_device *device)
{
	mutex_destroy(&device->settings);
	mutex_destroy(&device->work);
	mutex_destroy(&device->mode_lock);
	mutex_destroy(&device->result_lock);
	kfree(device);
}

static struct zm_device *device_alloc(int id)
{
	struct zm_device *device = kzalloc(sizeof(*device), GFP_KERNEL);
	u32 i;

	if (!device)
		return NULL;
	device->id = id;
	init_rwsem(&device->lock);
	mutex_init(&device->settings);
	mutex_init(&device->work);
	mutex_init(&device->mode_lock);
	mutex_init(&device->result_lock);
	spin_lock_init(&device->limit_lock);
	device->limits_set = 1;
	for (i = 0; i < ZM_PART_LOCKS; i++)
		mutex_init(&device->part_locks[i]);
	device->writeback_batch = 32;	/* zram's */
	return device;
}

/*
 * A new device, not initialised, its disk there for all to see. The error is
 * in the pointer.
 */
struct zm_device *zm_device_create(int major, int id)
{
	struct zm_device *device = device_alloc(id);
	struct gendisk *disk;
	int err;

	if (!device)
		return ERR_PTR(-ENOMEM);
	disk = zm_disk_alloc(ZM_BLOCK_SIZE);
	if (IS_ERR(disk)) {
		err = PTR_ERR(disk);
		goto free_device;
	}
	device->disk = disk;
	disk->major = major;
	disk->first_minor = id;
	disk->minors = 1;
	disk->flags |= GENHD_FL_NO_PART;
	disk->fops = &zm_operations;
	disk->private_data = device;
	snprintf(disk->disk_name, sizeof(disk->disk_name), "%s%d", zm_stem(),
		 id);
	choices_reset(device);
	zm_codecs_reset(device);
	set_capacity(disk, 0);
	err = device_add_disk(NULL, disk, zm_groups);
	if (err)
		goto put_disk;
	zm_debug_add(device);
	pr_info("added device %s\n", disk->disk_name);
	return device;

put_disk:
	put_disk(disk);
free_device:
	device_free(device);
	return ERR_PTR(err);
}

/*
 * -EBUSY where it is open. Afterwards the device is gone. A reset may be under
 * way: del_gendisk() waits for it, as for all that runs in an attribute, none
 * of which takes long any more.
 */
int zm_device_remove(struct zm_device *device)
{
	struct gendisk *disk = device->disk;
	int err = 0;

	mutex_lock(&disk->open_mutex);
	if (disk_openers(disk))
		err = -EBUSY;
	else
		WRITE_ONCE(device->removing, true);
	mutex_unlock(&disk->open_mutex);
	if (err)
		return err;
	/* Before all that waits for who is in there. */
	device_stop(device);
	zm_debug_remove(device);
	sync_blockdev(disk->part0);
	device_end(device);
	pr_info("removed device %s\n", disk->disk_name);
	del_gendisk(disk);
	put_disk(disk);
	device_free(device);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The block device on top of the store: what its files know of each other.
 *
 *   control.c     module, parameters, control class: devices come and go
 *   device.c      a device's life: disk, set-up, reset, removal
 *   request.c     bios: read, write, discard, write zeroes
 *   reads.c       reads of pages that are on the backing device
 *   attributes.c  size, limits, statistics: zram's plain attributes
 *   arguments.c   "key=value" as attributes take it
 *   codecs.c      which codecs, and their parameters
 *   meld.c        the pass, its modes, checking what is read and written
 *   recompress.c  stored pages through a stronger codec
 *   backing.c     the backing device and the settings of writeback
 *   writeback.c   stored pages to the backing device
 *   debug.c       debugfs: the state of every block
 *
 * A device is initialised (it has a store and a size) or it is not. The store
 * stays while anyone can use it:
 *   - a bio or a swap notification runs while the disk is open, and an open
 *     disk is not reset;
 *   - sysfs and debugfs hold `lock` for reading and look whether there is one.
 *
 * Lock order: zm_devices_lock (control.c), then a sysfs file's own reference,
 * then device->settings, then device->lock, then device->work or
 * device->mode_lock, then what the store takes. device->result_lock is inside all
 * of them. disk->open_mutex is held for a look at openers only, also inside
 * device->work; nothing of these is taken inside.
 *
 * How long anyone waits: a long operation holds device->lock for reading. Who
 * wants it for writing while there is a store first sets `stop`, which each
 * operation looks at every few pages, so who reads an attribute meanwhile waits
 * for some pages and the I/O that is on its way. The store is made and freed without
 * it, under device->settings: who sets one up or changes it waits, and can be sent a
 * signal, as can who waits for a long operation itself (device->work).
 */
#ifndef ZMELD_KMOD_DEVICE_H
#define ZMELD_KMOD_DEVICE_H

#include <linux/atomic.h>
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/device.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/sched/signal.h>
#include <linux/sysfs.h>
#include <linux/workqueue.h>

#include <compat.h>
#include <zmeld/port.h>
#include <zmeld/store.h>

/*
 * Requests come in these units, as zram's do. Where a page is larger a request
 * may be for a part of one. A test build may set 512 to have that everywhere.
 */
#ifndef ZM_BLOCK_SIZE
#define ZM_BLOCK_SIZE 4096
#endif

#define ZM_SECTORS_PER_PAGE_SHIFT (PAGE_SHIFT - SECTOR_SHIFT)
#define ZM_SECTORS_PER_PAGE (1u << ZM_SECTORS_PER_PAGE_SHIFT)

/* sysfs counts what is on the backing device in units of 4 KiB. */
#define ZM_UNITS_PER_PAGE (1u << (PAGE_SHIFT - 12))

/* Pages on their way to the backing device at a time, each with a page to copy to. */
#define ZM_WRITEBACK_BATCH_MAX 4096

/* Writers of parts of a page: enough locks that they seldom meet. */
#define ZM_PART_LOCKS (ZM_BLOCK_SIZE < PAGE_SIZE ? 64 : 1)

/* A codec as chosen through sysfs. */
struct zm_codec_setting {
	const struct zm_codec_ops *ops;	/* NULL: none at this priority */
	int level;			/* or ZM_CODEC_LEVEL_DEFAULT */
};

struct zm_device {
	struct gendisk *disk;
	int id;
	struct dentry *debug_dir;

	/*
	 * Read: to use the store, or to read a setting that it was made with.
	 * Written: to give it to the device or to take it, or to change such a setting.
	 */
	struct rw_semaphore lock;
	/* Held beside it to change a setting, to make the store or to end it. */
	struct mutex settings;
	/* One long operation at a time: pass, writeback, recompression, check. */
	struct mutex work;
	/* Either keeps everybody from opening it. Under disk->open_mutex. */
	bool claimed;			/* for a reset, or a check of all */
	bool removing;
	/* Asks a long operation to end soon; set by reset and removal. */
	bool stop;
	/* Together with the store's: who changes how the device melds. */
	struct mutex mode_lock;

	struct zm_store *store;		/* NULL: not initialised */
	u64 disksize;			/* bytes, whole pages; 0: likewise */

	/* Settings: under lock. */
	struct zm_codec_setting codecs[ZM_PRIORITIES];
	bool compressed_writeback;
	struct file *backing_file;	/* NULL: no backing device */
	struct block_device *backing;
	u64 backing_blocks;		/* pages that fit on it */
	struct zm_reads *reads;		/* what it is read with; see reads.c */

	/* Settings that may change at any time: READ_ONCE, WRITE_ONCE. */
	u64 memory_limit;		/* bytes, whole pages; 0: none */
	u32 meld_mode;			/* enum zm_meld_mode */
	bool verify;
	u32 check_writes;		/* enum zm_check_writes */
	u32 writeback_batch;		/* requests in flight */

	/* Under limit_lock, which is inside of all others; a new memory limit takes it, too. */
	spinlock_t limit_lock;
	bool writeback_limited;
	u64 writeback_left;		/* units of 4 KiB, where limited */
	u64 limits_set;			/* how often: pages sent before one are not of it */

	/* The last pass, under result_lock, which is held for a copy of it. */
	struct mutex result_lock;
	struct zm_meld_result result;
	bool result_known;
	/* Whether a pass runs now, for those who read `meld`. */
	bool pass_runs;

	struct mutex part_locks[ZM_PART_LOCKS];

	/* Statistics since set-up; the store counts the rest. */
	atomic64_t failed_reads;
	atomic64_t failed_writes;
	atomic64_t notify_free;		/* pages freed by discard or swap */
	atomic64_t backing_reads;	/* pages */
	atomic64_t backing_writes;	/* pages */
};

static inline struct zm_device *zm_device_of(struct device *dev)
{
	return dev_to_disk(dev)->private_data;
}

static inline u64 zm_device_pages(const struct zm_device *device)
{
	return device->disksize >> PAGE_SHIFT;
}

/*
 * Whether a long operation has to end: the device goes away, or a signal ends whoever
 * started the operation. One that does not, such as a shell's SIGCHLD, is none of its
 * affairs, as with zram.
 */
static inline bool zm_device_must_stop(const struct zm_device *device)
{
	return READ_ONCE(device->stop) || zm_port_interrupted();
}

/* control.c */
extern u32 zm_meld_mode_default;
extern u32 zm_check_writes_default;
/* The stem of every name: "zmeld", or zram's as a drop-in. */
const char *zm_stem(void);

/* device.c */
struct zm_device *zm_device_create(int major, int id);
int zm_device_remove(struct zm_device *device);
int zm_device_init(struct zm_device *device, u64 disksize);
int zm_device_reset(struct zm_device *device);
int zm_device_refuse_loop(struct zm_device *device);
int zm_device_claim(struct zm_device *device);
void zm_device_unclaim(struct zm_device *device);
int zm_device_lock_settings(struct zm_device *device);
void zm_device_unlock_settings(struct zm_device *device);
int zm_device_lock_work(struct zm_device *device, bool wait, u64 *stops_seen);
void zm_device_unlock_work(struct zm_device *device);
int zm_device_lock_beside(struct zm_device *device, u64 *stops_seen);
void zm_device_unlock(struct zm_device *device);

/* request.c */
extern const struct block_device_operations zm_operations;

/*
 * A read that goes on in a worker, because it met a page that is on the
 * backing device; see reads.c.
 */
struct zm_later {
	struct work_struct work;
	struct zm_device *device;
	struct bio *bio;
	struct bvec_iter iter;		/* what is left to read */
	unsigned long started;		/* for the accounting */
	atomic_t pending;		/* the worker, and blocks on their way */
	int err;			/* the first */
};

blk_status_t zm_pages_read(struct zm_device *device, struct bio *bio,
			   struct bvec_iter *iter, struct zm_later *later);
void zm_bio_end(struct zm_device *device, struct bio *bio,
		unsigned long started, blk_status_t status);

/* reads.c */
struct zm_reads *zm_reads_create(void);
void zm_reads_destroy(struct zm_reads *reads);
void zm_later_read(struct zm_device *device, struct bio *bio,
		   struct bvec_iter iter, unsigned long started);
void zm_later_fetch(struct zm_later *later, const struct zm_backed *backed,
		    struct page *page);
int zm_backed_read_wait(struct zm_device *device, struct zm_backed *backed,
			struct page *page, bool in_worker);

/* attributes.c */
void zm_stats_for_all(struct zm_stats *stats);

/* codecs.c */
void zm_codecs_reset(struct zm_device *device);
void zm_codecs_choose(const struct zm_device *device,
		      struct zm_store_options *options);
int zm_codec_priority(const struct zm_device *device, const char *name,
		      const int *asked, int first);

/* arguments.c: "key=value key=value" */
struct zm_arguments {
	char *copy;
	char *rest;
	char *key;
	char *value;			/* NULL: a word alone */
};

int zm_arguments_begin(struct zm_arguments *arguments, const char *text);
bool zm_arguments_next(struct zm_arguments *arguments);
bool zm_argument_is(const struct zm_arguments *arguments, const char *key);
int zm_argument_pick(const char *name, u32 *which);
void zm_arguments_end(struct zm_arguments *arguments);

/* backing.c */
void zm_backing_release(struct zm_device *device);

/* meld.c */
int zm_meld_mode_find(const char *name);
int zm_check_writes_find(const char *name);

/* debug.c */
void zm_debug_create(void);
void zm_debug_destroy(void);
void zm_debug_add(struct zm_device *device);
void zm_debug_remove(struct zm_device *device);

extern const struct attribute_group zm_plain_group;
extern const struct attribute_group zm_codec_group;
extern const struct attribute_group zm_backing_group;
extern const struct attribute_group zm_writeback_group;
extern const struct attribute_group zm_recompress_group;
extern const struct attribute_group zm_meld_group;

#endif /* ZMELD_KMOD_DEVICE_H */

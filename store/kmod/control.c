// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The module: its parameters, its control class, and the devices as they come
 * and go.
 */
#define pr_fmt(fmt) "zmeld: " fmt

#include <linux/idr.h>
#include <linux/init.h>
#include <linux/kdev_t.h>
#include <linux/kstrtox.h>
#include <linux/module.h>
#include <linux/namei.h>

#include <start.h>

#include "device.h"

/* The one place; `cargo xtask` and DKMS read it from here. */
#define ZMELD_VERSION "0.1.0"

/* Each takes memory and time before anybody asked for it: hot_add makes more. */
#define DEVICES_AT_ONCE_MAX 1024

static unsigned int num_devices = 1;
module_param(num_devices, uint, 0444);
MODULE_PARM_DESC(num_devices, "Devices to make at once (1), at most 1024");

static bool drop_in;
module_param(drop_in, bool, 0444);
MODULE_PARM_DESC(drop_in,
		 "Take zram's names: /dev/zram0, zram-control and so on (N)");

static char *meld_mode = "manual";
module_param(meld_mode, charp, 0444);
MODULE_PARM_DESC(meld_mode,
		 "Mode of new devices: off, manual, auto, inline (manual)");

static char *check_writes = "auto";
module_param(check_writes, charp, 0444);
MODULE_PARM_DESC(check_writes,
		 "Whether new devices decode and compare what they encode: auto, on, off (auto)");

u32 zm_meld_mode_default;
u32 zm_check_writes_default;

/* Guards the set of devices; each device's life is told in device.c. */
static DEFINE_MUTEX(zm_devices_lock);
static DEFINE_IDR(devices);
static bool is_closed;		/* loading has failed: no device is made */
static int major;

const char *zm_stem(void)
{
	return drop_in ? "zram" : "zmeld";
}

/* -- Devices --------------------------------------------------------------- */

/* The new device's number, or -errno. pre: zm_devices_lock is held. */
static int device_make(void)
{
	struct zm_device *device;
	int id;

	if (is_closed)
		return -ENODEV;
	/* As many as there are minor numbers. */
	id = idr_alloc(&devices, NULL, 0, 1 << MINORBITS, GFP_KERNEL);
	if (id < 0)
		return id;
	device = zm_device_create(major, id);
	if (IS_ERR(device)) {
		idr_remove(&devices, id);
		return PTR_ERR(device);
	}
	idr_replace(&devices, device, id);
	return id;
}

/* -ENODEV: none of that number. pre: zm_devices_lock is held. */
static int device_end(int id)
{
	struct zm_device *device = idr_find(&devices, id);
	int err;

	if (!device)
		return -ENODEV;
	err = zm_device_remove(device);
	if (!err)
		idr_remove(&devices, id);
	return err;
}

static void devices_remove(void)
{
	struct zm_device *device;
	int id;

	mutex_lock(&zm_devices_lock);
	idr_for_each_entry(&devices, device, id)
		WARN_ON_ONCE(device_end(id));
	mutex_unlock(&zm_devices_lock);
}

/* -- The control class ------------------------------------------------------ */

/* Reading it makes a device and says its number, as zram's does. */
static ssize_t hot_add_show(ZM_CLASS_ARGUMENTS, char *buf)
{
	int id;

	if (mutex_lock_killable(&zm_devices_lock))
		return -EINTR;
	id = device_make();
	mutex_unlock(&zm_devices_lock);
	return id < 0 ? id : sysfs_emit(buf, "%d\n", id);
}

/* For root only, since reading changes something. */
static struct class_attribute class_attr_hot_add =
	__ATTR(hot_add, 0400, hot_add_show, NULL);

static ssize_t hot_remove_store(ZM_CLASS_ARGUMENTS, const char *buf,
				size_t len)
{
	int id, err;

	err = kstrtoint(buf, 10, &id);
	if (err)
		return err;
	if (id < 0)
		return -EINVAL;
	if (mutex_lock_killable(&zm_devices_lock))
		return -EINTR;
	err = device_end(id);
	mutex_unlock(&zm_devices_lock);
	return err ? err : len;
}
static CLASS_ATTR_WO(hot_remove);

static struct attribute *control_attrs[] = {
	&class_attr_hot_add.attr,
	&class_attr_hot_remove.attr,
	NULL,
};
ATTRIBUTE_GROUPS(control);

static struct class control_class = {
	.name = "zmeld-control",
	.class_groups = control_groups,
};

/* -- The module ------------------------------------------------------------- */

/*
 * Two modules cannot have one set of names. zram is found by its control
 * class, which it has from the moment it is there, built in or loaded.
 */
static bool zram_is_there(void)
{
	struct path path;

	if (kern_path("/sys/class/zram-control", LOOKUP_FOLLOW, &path))
		return false;
	path_put(&path);
	return true;
}

static int parameters_check(void)
{
	int mode = zm_meld_mode_find(meld_mode);
	int checked = zm_check_writes_find(check_writes);

	if (mode < 0) {
		pr_err("meld_mode=%s: it is one of off, manual, auto, inline\n",
		       meld_mode);
		return -EINVAL;
	}
	zm_meld_mode_default = mode;
	if (checked < 0) {
		pr_err("check_writes=%s: it is one of auto, on, off\n",
		       check_writes);
		return -EINVAL;
	}
	zm_check_writes_default = checked;
	if (num_devices > DEVICES_AT_ONCE_MAX) {
		pr_err("num_devices=%u: at most %d are made at once; more come from hot_add\n",
		       num_devices, DEVICES_AT_ONCE_MAX);
		return -EINVAL;
	}
	if (!zm_codec_count) {
		pr_err("this kernel has no codec: it needs one of the libraries LZO, LZ4, ZSTD or ZLIB\n");
		return -EOPNOTSUPP;
	}
	if (drop_in && zram_is_there()) {
		pr_err("drop_in: zram has its names itself: unload zram first, or load zmeld without drop_in\n");
		return -EBUSY;
	}
	if (drop_in)
		control_class.name = "zram-control";
	return 0;
}

static int devices_make(void)
{
	unsigned int i;
	int id = 0;

	mutex_lock(&zm_devices_lock);
	for (i = 0; i < num_devices && id >= 0; i++)
		id = device_make();
	/*
	 * From the first device on anybody may have one open, and a module whose
	 * load fails goes whatever uses it: those that could be made will have
	 * to do.
	 */
	if (id < 0 && !idr_is_empty(&devices)) {
		pr_warn("only some of %u devices could be made: error %d\n",
			num_devices, id);
		id = 0;
	}
	is_closed = id < 0;
	mutex_unlock(&zm_devices_lock);
	return id < 0 ? id : 0;
}

static int __init zm_start(void)
{
	int err;

	err = parameters_check();
	if (err)
		return err;
	err = zm_port_start();
	if (err)
		return err;
	major = register_blkdev(0, zm_stem());
	err = major < 0 ? major : 0;
	if (err)
		goto stop_home;
	zm_debug_create();
	err = class_register(&control_class);
	if (err)
		goto destroy_debug;
	err = devices_make();
	if (err)
		goto unregister_class;
	return 0;

unregister_class:
	class_unregister(&control_class);
	devices_remove();
destroy_debug:
	zm_debug_destroy();
	unregister_blkdev(major, zm_stem());
stop_home:
	zm_port_stop();
	return err;
}

static void __exit zm_stop(void)
{
	class_unregister(&control_class);
	devices_remove();
	zm_debug_destroy();
	unregister_blkdev(major, zm_stem());
	zm_port_stop();
	idr_destroy(&devices);
}

module_init(zm_start);
module_exit(zm_stop);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Compressed RAM block device that melds identical pages");
MODULE_VERSION(ZMELD_VERSION);

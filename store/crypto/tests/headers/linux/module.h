/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <linux/types.h>

struct module;

#define __init
#define __ro_after_init
#define __exit
#define THIS_MODULE ((struct module *)0)
#define READ_ONCE(value) (value)
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define module_param(name, type, mode) \
	extern type stub_##name[sizeof(name) == sizeof(type) ? 1 : -1]
#define MODULE_PARM_DESC(name, text) extern const char stub_##name##_text[]
#define EXPORT_SYMBOL_GPL(name) extern const char stub_##name##_export[]
#define MODULE_LICENSE(text) extern const char stub_license[]
#define MODULE_DESCRIPTION(text) extern const char stub_description[]
#define MODULE_ALIAS_CRYPTO(name) extern const char stub_alias[]
#define module_init(start) int stub_init(void) { return start(); }
#define module_exit(stop) void stub_exit(void) { stop(); }

int printk(const char *format, ...);

#define pr_err(format, ...) printk(pr_fmt(format), ##__VA_ARGS__)
#define pr_warn_once(format, ...) printk(pr_fmt(format), ##__VA_ARGS__)
#define pr_warn(format, ...) printk(pr_fmt(format), ##__VA_ARGS__)

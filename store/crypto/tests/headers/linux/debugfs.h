/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <linux/types.h>

typedef struct {
	int counter;
} atomic_t;

static inline void atomic_inc(atomic_t *count)
{
	count->counter++;
}

struct dentry;

struct dentry *debugfs_create_dir(const char *name, struct dentry *parent);
void debugfs_create_atomic_t(const char *name, unsigned short mode,
			     struct dentry *parent, atomic_t *value);
void debugfs_remove(struct dentry *dentry);

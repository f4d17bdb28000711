// SPDX-License-Identifier: GPL-2.0-or-later
/* The codec zword, with this port's memory. */
#include "codec_linux.h"

#include "../../crypto/selftest.h"
#include "../../zword/linux_tables.h"

static int zword_tables_try(const struct zword_tables *tables)
{
	void *memory = kvmalloc(zword_selftest_size(), GFP_KERNEL);
	int err = memory ? zword_selftest(tables, memory) : -ENOMEM;

	kvfree(memory);
	if (err)
		pr_err("zmeld: zword's self-test failed: error %d\n", err);
	return err;
}

#ifdef ZWORD_TABLES
#include <linux/module.h>

/* zword.ko stays loaded while its tables are borrowed. */
static const struct zword_tables *zword_tables_borrow(void)
{
	const struct zword_tables **tables;

	tables = __symbol_get(__stringify(ZWORD_TABLES));
	return tables ? *tables : NULL;
}

static void zword_tables_return(void)
{
	symbol_put(ZWORD_TABLES);
}
#endif

#include "../../zword/codec.h"

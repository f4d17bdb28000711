// SPDX-License-Identifier: GPL-2.0-or-later
/* The codec zword, with this port's memory. */
#include "codec_linux.h"

#include "../../zword/linux_tables.h"

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

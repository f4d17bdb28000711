// SPDX-License-Identifier: GPL-2.0-or-later
/* The codec zword, with this port's memory. */
#include "codec_user.h"

#include "../../zword/zword.h"

static struct zword_tables *zword_tables_alloc(void)
{
	return malloc(zword_tables_size());
}

static void zword_tables_free(struct zword_tables *tables)
{
	free(tables);
}

/* For those who do not include zword.h. */
size_t zword_work_size(void);

size_t zword_work_size(void)
{
	return sizeof(struct zword_work);
}

/* Here the tests try them. */
static int zword_tables_try(const struct zword_tables *tables)
{
	(void)tables;
	return 0;
}

#include "../../zword/codec.h"

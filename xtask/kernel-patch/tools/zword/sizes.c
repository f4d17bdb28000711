// SPDX-License-Identifier: GPL-2.0-or-later
/* For those who do not include zword.h. */
#include "zword.h"

size_t zword_work_size(void);

size_t zword_work_size(void)
{
	return sizeof(struct zword_work);
}

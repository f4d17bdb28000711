/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <linux/types.h>

#if KERNEL < 605
void page_endio(struct page *page, bool is_write, int err);
#endif

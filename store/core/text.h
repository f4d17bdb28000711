/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Text that grows in a buffer; what does not fit is cut, never written past. */
#ifndef ZMELD_CORE_TEXT_H
#define ZMELD_CORE_TEXT_H

#include <zmeld/port.h>

struct zm_text {
	char *bytes;
	size_t size;
	size_t used;	/* without the NUL */
};

#define zm_text_add(text, ...)						\
	do {								\
		struct zm_text *t_ = (text);				\
									\
		if (t_->used < t_->size)				\
			t_->used += zm_port_print(t_->bytes + t_->used,	\
						  t_->size - t_->used,	\
						  __VA_ARGS__);		\
	} while (0)

#endif /* ZMELD_CORE_TEXT_H */

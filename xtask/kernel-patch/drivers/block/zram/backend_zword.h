/* SPDX-License-Identifier: GPL-2.0-or-later */

#ifndef __BACKEND_ZWORD_H__
#define __BACKEND_ZWORD_H__

#include "zcomp.h"

extern const struct zcomp_ops backend_zword;

#endif /* __BACKEND_ZWORD_H__ */

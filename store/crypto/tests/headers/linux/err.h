/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>

#define ERR_PTR(error) ((void *)(long)(error))

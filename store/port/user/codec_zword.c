// SPDX-License-Identifier: GPL-2.0-or-later
/* The codec zword, with this home's memory. */
#include "codec_user.h"

#include "../../zword/codec.h"

/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STUB_TYPES_H
#define STUB_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef unsigned long long u64;

#define __maybe_unused __attribute__((__unused__))

#endif

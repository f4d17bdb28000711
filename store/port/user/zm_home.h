/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * User space as the store's home: the types, and nothing else of libc, that
 * the core and its headers are written in. The kernel's home brings the same
 * names from linux/types.h and its kin.
 */
#ifndef ZM_HOME_H
#define ZM_HOME_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;

/* The page of the machine that is predicted for; 12 is 4 KiB. */
#ifndef ZM_PAGE_SHIFT
#define ZM_PAGE_SHIFT 12
#endif
#define ZM_PAGE_SIZE (1u << ZM_PAGE_SHIFT)

#endif /* ZM_HOME_H */

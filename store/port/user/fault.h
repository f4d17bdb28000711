/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Allocation failures on demand, as the kernel's fault injection does it: the
 * tests let each allocation of a run fail in turn, or all that do not wait.
 */
#ifndef ZM_USER_FAULT_H
#define ZM_USER_FAULT_H

#include <zm_platform.h>

/* The nth allocation from now fails (1: the next); 0: none does. */
void zm_fault_set(u64 nth);
/* How many allocations were asked for since zm_fault_set(). */
u64 zm_fault_asked(void);
/* The port asks before each allocation. */
bool zm_fault_now(void);
/* From now on what is not waited for is not there, or is again. */
void zm_fault_scarce_set(bool scarce);
bool zm_fault_is_scarce(void);

#endif /* ZM_USER_FAULT_H */

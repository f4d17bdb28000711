/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel port's own life: what all stores of the module share. The module
 * starts it before it makes its first store and stops it after its last.
 */
#ifndef ZMELD_PORT_LINUX_START_H
#define ZMELD_PORT_LINUX_START_H

/* 0, -ENOMEM, or what the kernel says of its processors' states. May sleep. */
int zm_port_start(void);
/* pre: every store is destroyed. May sleep. */
void zm_port_stop(void);

/* streams.c: the part of it that follows processors as they come and go. */
int zm_streams_start(void);
void zm_streams_stop(void);

#endif /* ZMELD_PORT_LINUX_START_H */

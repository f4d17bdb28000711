/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the guest tests' programs share: how they say that they cannot go on, and the
 * allocation that is to fail next in the thread that asks for it.
 */
#ifndef ZM_GUEST_TESTS_NTH_H
#define ZM_GUEST_TESTS_NTH_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NTH_FILE "/proc/thread-self/fail-nth"

static inline void fail(const char *what, const char *about)
{
	printf("# %s %s: %s\n", what, about, strerror(errno));
	exit(2);
}

static inline int nth_open(void)
{
	int fd = open(NTH_FILE, O_RDWR);

	if (fd < 0)
		fail("cannot open", NTH_FILE);
	return fd;
}

/* 0: none fails. */
static inline void nth_set(int fd, int nth)
{
	char text[16];
	int size = snprintf(text, sizeof(text), "%d", nth);

	if (pwrite(fd, text, size, 0) != size)
		fail("cannot write", NTH_FILE);
}

/* What is left to count down; 0: the failure was injected. */
static inline int nth_left(int fd)
{
	char text[16] = "";

	if (pread(fd, text, sizeof(text) - 1, 0) < 0)
		fail("cannot read", NTH_FILE);
	return atoi(text);
}

#endif /* ZM_GUEST_TESTS_NTH_H */

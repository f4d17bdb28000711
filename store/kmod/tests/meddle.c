// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Somebody who does what he can at the wrong moment, for tests of a block device in
 * a guest.
 *
 *	meddle read DEVICE PAGES
 *	meddle load MODULE-FILE MODULE DEVICE ARGUMENTS
 *
 * `read` reads pages into a buffer that a second process changes all the while, as
 * the owner of a page under O_DIRECT can: what arrives is his business, but it is no
 * error. `load` loads a module whose first, second, third ... allocation fails, while
 * a second process opens the device as soon as it is there: a load that fails may
 * leave nobody with a device open.
 * Exit code 1: what the test forbids; 2: cannot be done.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nth.h"

/* The kernel's; its build says where it is another. */
#ifndef PAGE
#define PAGE 4096
#endif
/* A load has fewer allocations; more is a test that does not end. */
#define NTH_MAX 20000

struct shared {
	unsigned char page[PAGE];
	volatile unsigned long rounds;	/* of changes to the page */
	volatile int is_open;
};

static struct shared *shared;

static void end(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static pid_t changer_start(void)
{
	pid_t child = fork();
	unsigned int i;

	if (child < 0)
		fail("cannot fork", "");
	while (!child) {
		for (i = 0; i < PAGE; i += 61)
			((volatile unsigned char *)shared->page)[i] ^= 1 + i;
		shared->rounds++;
	}
	return child;
}

static int meddle_read(char **a)
{
	long pages = strtol(a[1], NULL, 10), page, failed = 0;
	int fd = open(a[0], O_RDONLY | O_DIRECT);
	pid_t child = changer_start();

	if (fd < 0)
		fail("cannot open", a[0]);
	for (page = 0; page < pages; page++)
		failed += pread(fd, shared->page, PAGE, page * PAGE) != PAGE;
	end(child);
	printf("# %ld pages read, %ld errors, changed %lu times meanwhile\n", pages, failed,
	       shared->rounds);
	return failed != 0;
}

static pid_t opener_start(const char *device)
{
	pid_t child;

	shared->is_open = 0;
	child = fork();
	if (child < 0)
		fail("cannot fork", "");
	if (child)
		return child;
	while (open(device, O_RDONLY) < 0)
		;
	shared->is_open = 1;
	for (;;)
		pause();
}

/* 0: it was loaded, and has been unloaded; else the error. */
static int load_once(int file, char **a, int nth_fd, int nth, int *left)
{
	pid_t child = opener_start(a[2]);
	int err;

	nth_set(nth_fd, nth);
	err = syscall(SYS_finit_module, file, a[3], 0) ? errno : 0;
	*left = nth_left(nth_fd);
	nth_set(nth_fd, 0);
	if (err && shared->is_open) {
		printf("# allocation %d: the load failed (%s), and %s is open\n", nth,
		       strerror(err), a[2]);
		exit(1);
	}
	end(child);
	if (err && !access(a[2], F_OK)) {
		printf("# allocation %d: the load failed (%s), and %s is there\n", nth,
		       strerror(err), a[2]);
		exit(1);
	}
	while (!err && syscall(SYS_delete_module, a[1], O_NONBLOCK))
		usleep(1000);
	return err;
}

static int meddle_load(char **a)
{
	int file = open(a[0], O_RDONLY | O_CLOEXEC), failed = 0, lived = 0, n, left;
	int nth_fd = nth_open();

	if (file < 0)
		fail("cannot open", a[0]);
	for (n = 1; n < NTH_MAX; n += 1 + n / 10) {
		int err = load_once(file, a, nth_fd, n, &left);

		if (!err && left) {
			printf("# %d allocations, %d loads failed, %d went on\n", n - 1, failed,
			       lived);
			return 0;
		}
		failed += err != 0;
		lived += !err;
	}
	printf("# more than %d allocations\n", NTH_MAX);
	return 1;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		fail("no memory", "");
	if (!strcmp(what, "read") && argc == 4)
		return meddle_read(argv + 2);
	if (!strcmp(what, "load") && argc == 6)
		return meddle_load(argv + 2);
	printf("# usage: see the head of meddle.c\n");
	return 2;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The only program of a virtual machine with several NUMA nodes: one process, alone on the machine, touches its
 * pages on node 0 and is then moved from node to node by a fixed script, under each of the kernel's ways to deal
 * with the pages it leaves behind. After each step it prints the kernel's counters and where its pages are:
 *
 *	ZMELD <way> <step> <counter> <value>
 *
 * The simulator runs the same script (tests/real_linux.rs).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGES 4096
#define PAGE 4096
#define NODES 4

static const char *const counters[] = {
	"numa_pte_updates", "numa_hint_faults", "numa_hint_faults_local", "numa_pages_migrated", "pgmigrate_success",
};
#define COUNTERS (sizeof(counters) / sizeof(counters[0]))

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		printf("ZMELD-FAILED %s: %s\n", path, strerror(errno));
	if (fd >= 0)
		close(fd);
}

static void read_counters(long values[COUNTERS])
{
	char name[64];
	long value;
	FILE *f = fopen("/proc/vmstat", "r");

	memset(values, 0, sizeof(long) * COUNTERS);
	while (f && fscanf(f, "%63s %ld", name, &value) == 2)
		for (size_t i = 0; i < COUNTERS; i++)
			if (!strcmp(name, counters[i]))
				values[i] = value;
	if (f)
		fclose(f);
}

/* The node's first processor: with -numa node,cpus=2N-2N+1, nodes have two processors each. */
static void go_to_node(int node)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(2 * node, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		printf("ZMELD-FAILED sched_setaffinity: %s\n", strerror(errno));
}

/* Touches all pages again and again, for so many seconds. */
static void walk(volatile char *pages, double seconds)
{
	double end = now() + seconds;

	while (now() < end)
		for (int i = 0; i < PAGES; i++)
			pages[(size_t)i * PAGE]++;
}

static void report(const char *way, const char *step, const long before[COUNTERS], char *pages)
{
	static void *where[PAGES];
	static int status[PAGES];
	long after[COUNTERS], on[NODES] = { 0 };

	read_counters(after);
	for (size_t i = 0; i < COUNTERS; i++)
		printf("ZMELD %s %s %s %ld\n", way, step, counters[i], after[i] - before[i]);
	for (int i = 0; i < PAGES; i++)
		where[i] = pages + (size_t)i * PAGE;
	if (syscall(SYS_move_pages, 0, (long)PAGES, where, NULL, status, 0))
		printf("ZMELD-FAILED move_pages: %s\n", strerror(errno));
	for (int i = 0; i < PAGES; i++)
		if (status[i] >= 0 && status[i] < NODES)
			on[status[i]]++;
	for (int node = 0; node < NODES; node++)
		printf("ZMELD %s %s pages_on_node_%d %ld\n", way, step, node, on[node]);
}

static void script(const char *way)
{
	static const int nodes[] = { 1, 2 };
	static const char *const steps[] = { "to-node-1", "to-node-2" };
	int here = 0;
	char *pages;

	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	go_to_node(0);
	pages = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED) {
		printf("ZMELD-FAILED mmap: %s\n", strerror(errno));
		return;
	}
	walk(pages, 2);
	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		long before[COUNTERS];

		read_counters(before);
		go_to_node(nodes[i]);
		if (!strcmp(way, "full")) {
			unsigned long from = 1UL << here, to = 1UL << nodes[i];

			if (syscall(SYS_migrate_pages, 0, (unsigned long)NODES + 1, &from, &to) < 0)
				printf("ZMELD-FAILED migrate_pages: %s\n", strerror(errno));
		}
		walk(pages, 8);
		report(way, steps[i], before, pages);
		here = nodes[i];
	}
}

static void in_child(const char *way, const char *balancing)
{
	pid_t pid;

	write_file("/proc/sys/kernel/numa_balancing", balancing);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		script(way);
		fflush(stdout);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

int main(void)
{
	mkdir("/proc", 0755);
	mkdir("/sys", 0755);
	mount("proc", "/proc", "proc", 0, NULL);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	write_file("/proc/sys/kernel/printk", "1");
	/* One scan a second, no more and no fewer, so that the script has a known number of them. */
	write_file("/sys/kernel/debug/sched/numa_balancing/scan_delay_ms", "1000");
	write_file("/sys/kernel/debug/sched/numa_balancing/scan_period_min_ms", "1000");
	write_file("/sys/kernel/debug/sched/numa_balancing/scan_period_max_ms", "1000");
	for (int node = 0; node < NODES; node++) {
		char path[64], line[128] = "";
		FILE *f;

		snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/distance", node);
		f = fopen(path, "r");
		if (f && fgets(line, sizeof(line), f))
			printf("ZMELD-DISTANCES %d %s", node, line);
		if (f)
			fclose(f);
	}
	in_child("linux", "0");
	in_child("full", "0");
	in_child("autonuma", "1");
	printf("ZMELD-DONE\n");
	fflush(stdout);
	reboot(RB_AUTOBOOT);
	return 0;
}

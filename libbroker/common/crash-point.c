/* SPDX-License-Identifier: Apache-2.0 */
/* crash-point.c - see crash-point.h. Compiled only with --enable-crash-points. */
#include "crash-point.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "environment.h"

#define SPEC_MAX  256
#define PATIENCE  20000 /* checks at most, 100 us apart, whether a process is dead or stopped */

/* An action at a crash point, from GPUB_CRASH. */
struct order {
	char  name[40], action[8];
	int   nth;    /* which passing of the point acts */
	pid_t pid;    /* the process that the broker serves at a BROKER point, or 0 */
	pid_t target; /* the process on which a BROKER or LOOP point acts, or 0 */
	int   file;   /* file with the order, locked while the process is at the point; -1: there is none */
	off_t offset; /* of the order in the file */
};

static const char *const names[CRASH_POINT_COUNT] = {
#define CRASH_POINT_NAME(side, name, text) [CRASH_##name] = #name,
	CRASH_POINTS(CRASH_POINT_NAME)
#undef CRASH_POINT_NAME
};

static atomic_int passed[CRASH_POINT_COUNT];
enum side { LIBRARY, BROKER, LOOP, OWNER, NEXT };

static const enum side sides[CRASH_POINT_COUNT] = {
#define CRASH_POINT_SIDE(side, name, text) [CRASH_##name] = side,
	CRASH_POINTS(CRASH_POINT_SIDE)
#undef CRASH_POINT_SIDE
};

static pid_t peer; /* the client process that the broker serves now (crash_point_peer()) */

void crash_point_peer(pid_t pid)
{
	peer = pid;
}

/* ---- reading the action ---- */

static void file_read(const char *path, char spec[SPEC_MAX])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd >= 0 ? read(fd, spec, SPEC_MAX - 1) : 0;

	if (fd >= 0)
		close(fd);
	spec[got > 0 ? got : 0] = 0;
}

/*
 * Sets all of passed[] to 0 if `spec`, the text read from the file of GPUB_CRASH, is not the text of the last call. The
 * caller has locked the file, so no other thread of the process is here.
 */
static void counts_begin_anew(const char *spec)
{
	static char last[SPEC_MAX];

	if (!strcmp(spec, last))
		return;
	strcpy(last, spec);
	for (int i = 0; i < CRASH_POINT_COUNT; i++)
		atomic_store(&passed[i], 0);
}

static int order_parse(struct order *order, const char *text)
{
	order->pid = order->target = 0;
	if (sscanf(text, "%39[a-z_]:%d:%7[a-z]:%d:%d", order->name, &order->nth, order->action, &order->pid,
		   &order->target) < 3)
		return -1;
	if (!order->target)
		order->target = order->pid;
	return 0;
}

/* Locks the file, and finds the first order that is not carried out. Returns 0, or -1: there is none. */
static int order_find(struct order *order, const char *path)
{
	char text[SPEC_MAX];
	const char *line = text;
	ssize_t got;

	order->file = open(path, O_RDWR | O_CLOEXEC);
	if (order->file < 0 || flock(order->file, LOCK_EX))
		return -1;
	got = pread(order->file, text, sizeof text - 1, 0);
	text[got > 0 ? got : 0] = 0;
	counts_begin_anew(text);
	while (*line == CRASH_DONE) {
		line += strcspn(line, "\n");
		line += *line != 0;
	}
	order->offset = line - text;
	return order_parse(order, line);
}

/* The caller closes order->file, also when -1 is returned. */
static int order_read(struct order *order)
{
	const char *spec = environment_get("GPUB_CRASH");

	order->file = -1;
	if (!spec)
		return -1;
	return *spec == '@' ? order_find(order, spec + 1) : order_parse(order, spec);
}

/* Notes in the file that the order is carried out. */
static void order_mark(const struct order *order)
{
	static const char done = CRASH_DONE;

	if (order->file >= 0 && pwrite(order->file, &done, 1, order->offset) != 1)
		abort();
}

/* ---- doing the action ---- */

/* Sends the signal to the calling thread, which therefore executes nothing more. */
static void signal_self(int signal)
{
	syscall(SYS_tgkill, getpid(), (int)syscall(SYS_gettid), signal);
}

/* Whether the process has ended, or is in one of the states (letters of /proc/PID/stat). */
static int process_is(pid_t pid, const char *states)
{
	char path[40], text[256] = "";
	const char *end;

	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	file_read(path, text);
	end = strrchr(text, ')');
	return !end || strchr(states, end[2]);
}

/* Sends the signal to the process, and waits until the process is dead or stopped, for PATIENCE checks at most. */
static void signal_process(pid_t pid, int signal)
{
	kill(pid, signal);
	for (int look = 0; look < PATIENCE && !process_is(pid, signal == SIGSTOP ? "TZX" : "ZX"); look++)
		usleep(100);
}

/* Unlocks the file, for which the other processes would wait. */
static _Noreturn void hang(const struct order *order)
{
	if (order->file >= 0)
		close(order->file);
	for (;;)
		pause();
}

static void act(const struct order *order, enum side side)
{
	int signal = !strcmp(order->action, "stop")  ? SIGSTOP :
		     !strcmp(order->action, "abort") ? SIGABRT :
						       SIGKILL;

	order_mark(order);
	if (!strcmp(order->action, "hang"))
		hang(order);
	if ((side == BROKER || side == LOOP) && order->target > 0)
		signal_process(order->target, signal);
	else if (!strcmp(order->action, "exit"))
		_exit(CRASH_EXIT);
	else
		signal_self(signal);
}

/* Returns the client process at which a point of this side is passed. 0 at other points: none. */
static pid_t pid_of(enum side side)
{
	return side == LIBRARY ? getpid() : side == BROKER ? peer : 0;
}

static void visited_append(pid_t pid, enum crash_point point)
{
	const char *path = environment_get("GPUB_CRASH_VISITED");
	int fd = path ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
	char line[64];
	int length = snprintf(line, sizeof line, "%d %s\n", pid, names[point]);

	if (fd < 0)
		return;
	if (write(fd, line, (size_t)length) != length)
		signal_self(SIGABRT);
	close(fd);
}

/* Whether the order is about this passing of the point, which the process passes for the client process. */
static bool is_due(const struct order *order, enum crash_point point, pid_t pid)
{
	enum side side = sides[point];

	if (strcmp(order->name, names[point]) || (side == BROKER && order->pid != pid))
		return false;
	if ((side == BROKER || side == LOOP) && !order->target)
		return false;
	return atomic_fetch_add(&passed[point], 1) + 1 == order->nth;
}

void crash_point_pass(enum crash_point point)
{
	pid_t pid = pid_of(sides[point]);
	struct order order;

	visited_append(pid, point);
	if (!order_read(&order) && is_due(&order, point, pid))
		act(&order, sides[point]);
	if (order.file >= 0)
		close(order.file);
}

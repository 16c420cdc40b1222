/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why.c - what broker-status --why says of programs that hang, word by word: stopped writers, drains, full
 * devices, names that nobody makes, a broker that is stopped or dead.
 *
 * deadlocks.c has the circles.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "why-scene.h"

#define MIB (1u << 20)

static void test_stopped_writer(void)
{
	begin();
	POINT(says(0, "", "Nothing waits.\n"), "where nothing waits, that is the answer");
	ask(&c, do_wait, .slot = 1, .value = 3);
	POINT(says(0, "", "Nothing waits.\n"), "a value that was reached is not waited for");
	ask(&c, do_wait, .slot = 1, .value = 4);
	POINT(says(0, "",
		   "rank 2 (pid %d) waits for heat/1 to reach 4; it is at 3; its writer, rank 1 (pid %d), runs and "
		   "waits for nothing that the broker knows of: gdb -p %d shows what it does\n",
		   c.pid, b.pid, b.pid),
	      "a stream that waits, and a writer that is at work");
	stop_child(b.pid);
	POINT(says(0, "",
		   "rank 2 (pid %d) waits for heat/1 to reach 4; it is at 3; its writer, rank 1 (pid %d), is stopped "
		   "by a signal: kill -CONT %d\n",
		   c.pid, b.pid, b.pid),
	      "a writer that is stopped, and what to do");
	POINT(says(0, "heat/0", "Nothing waits for heat/0.\n"), "another buffer is not waited for");
	POINT(says(1, "heat/9",
		   "broker-status: there is neither a buffer nor a process 'heat/9' here: broker-status lists them\n"),
	      "a name that is not there: exit 1");
	ask(&a, do_wait, .slot = 2, .value = 9);
	POINT(says(0, "heat/2",
		   "rank 0 (pid %d) waits for heat/2 to reach 9; it is at 3; its writer, rank 2 (pid %d), waits for "
		   "heat/1 to reach 4; it is at 3; its writer, rank 1 (pid %d), is stopped by a signal: kill -CONT "
		   "%d\n",
		   a.pid, c.pid, b.pid, b.pid),
	      "a chain is followed to its end");
	kill(b.pid, SIGCONT);
	ask(&b, do_signal, .slot = 1, .value = 4);
	ask(&c, do_sync);
	ask(&c, do_signal, .slot = 2, .value = 9);
	ask(&a, do_sync);
	POINT(says(0, "", "Nothing waits.\n"), "when all have come on, nothing waits");
	tell(&a, do_await, .slot = 2, .value = 12, .timeout = -1);
	POINT(SOON(says(0, "",
			"rank 0 (pid %d) waits for heat/2 to reach 12; it is at 9; its writer, rank 2 (pid %d), runs "
			"and waits for nothing that the broker knows of: gdb -p %d shows what it does\n",
			a.pid, c.pid, c.pid)),
	      "a thread that waits itself");
	ask(&c, do_signal, .slot = 2, .value = 12);
	POINT(!receive(&a) && says(0, "", "Nothing waits.\n"), "until the value is there");
	end();
}

/* ---- what waits in the broker ---- */

/* The session's number, which evict takes. */
static int session_of(const struct puppet *puppet)
{
	json_t *text = status_json(&broker), *session;
	int id = -1;
	size_t i;

	json_array_foreach(json_object_get(text, "sessions"), i, session)
		if (json_integer_value(json_object_get(session, "pid")) == puppet->pid)
			id = (int)json_integer_value(json_object_get(session, "session"));
	json_decref(text);
	return id;
}

static void test_drain(void)
{
	broker_start(&broker, "host");
	start(&a, 0);
	start(&b, 1);
	start(&c, 2);
	ask(&a, do_create, .name = "u");
	ask(&b, do_acquire, .name = "u");
	tell(&a, do_drain, .name = "u", .timeout = -1);
	waits_are(1);
	POINT(says(0, "",
		   "rank 0 (pid %d) waits for u to be freed; it is used by rank 1 (pid %d), which runs and has not "
		   "closed it: broker-ctl evict %d --kill ends it\n",
		   a.pid, b.pid, session_of(&b)),
	      "a drain, and who uses the buffer");
	stop_child(b.pid);
	POINT(says(0, "u",
		   "rank 0 (pid %d) waits for u to be freed; it is used by rank 1 (pid %d), which is stopped by a "
		   "signal: kill -CONT %d\n",
		   a.pid, b.pid, b.pid),
	      "one that is stopped");
	kill(b.pid, SIGCONT);
	tell(&b, do_acquire, .name = "v", .slot = 1, .timeout = -1);
	waits_are(2);
	POINT(says(0, "u",
		   "rank 0 (pid %d) waits for u to be freed; it is used by rank 1 (pid %d), which waits for a buffer "
		   "v; nobody has created it: start the process that is to, or broker-ctl create v SIZE\n",
		   a.pid, b.pid),
	      "one that waits itself, for a name that nobody has created");
	ask(&c, do_create, .name = "v");
	receive(&b);
	ask(&b, do_return);
	ask(&b, do_trim);
	POINT(!receive(&a) && says(0, "", "Nothing waits.\n"), "when it has closed the buffer, nothing waits");
	end();
}

/* ---- containers ---- */

static char group[96]; /* a control group as Docker makes it, if this user may make one */

static bool text_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool wrote = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return wrote;
}

static bool contain_in(const char *parent, pid_t pid)
{
	char path[128], number[16];

	snprintf(group, sizeof group, "%s/docker-%d.scope", parent, getpid());
	snprintf(path, sizeof path, "%s/cgroup.procs", group);
	snprintf(number, sizeof number, "%d", pid);
	if (mkdir(group, 0755))
		return false;
	if (text_write(path, number))
		return true;
	rmdir(group);
	return false;
}

/* Of version 2, or one hierarchy of version 1. */
static bool contain(pid_t pid)
{
	return contain_in("/sys/fs/cgroup", pid) || contain_in("/sys/fs/cgroup/pids", pid);
}

static int do_own_mounts(const struct order *order)
{
	(void)order;
	return unshare(CLONE_NEWNS) ? -errno : 0;
}

/* A client shares the broker's pid namespace, wherever else it is contained. */
static void test_drain_behind_a_container(void)
{
	broker_start(&broker, "host");
	start(&a, 0);
	start(&b, 1);
	start(&c, 2);
	ask(&a, do_create, .name = "u");
	ask(&b, do_acquire, .name = "u");
	tell(&a, do_drain, .name = "u", .timeout = -1);
	waits_are(1);
	if (ask(&b, do_own_mounts))
		point_skip("mounts of its own: this user may not make a mount namespace");
	else
		POINT(!why("") && !strstr(answer, "in a container"),
		      "a process with mounts of its own, as a service with PrivateTmp has, is in no container");
	if (!contain(b.pid)) {
		point_skip("a drain behind a process in a container: this user may not make a control group");
	} else {
		stop_child(b.pid);
		POINT(says(0, "",
			   "rank 0 (pid %d) waits for u to be freed; it is used by rank 1 (pid %d, in a container), "
			   "which is stopped by a signal: kill -CONT %d\n",
			   a.pid, b.pid, b.pid),
		      "a drain behind a process in a container");
		kill(b.pid, SIGCONT);
	}
	ask(&b, do_return);
	ask(&b, do_trim);
	receive(&a);
	end();
	if (*group)
		rmdir(group);
}

static void test_full_device(void)
{
	setenv("GPUB_HOST_MEMORY", "16M", 1);
	broker_pool = "0";
	broker_start(&broker, "host");
	start(&a, 0);
	start(&b, 1);
	start(&c, 2);
	ask(&a, do_create, .name = "big", .size = 12 * MIB);
	ask(&a, do_create, .name = "small", .size = 2 * MIB);
	ask(&b, do_acquire, .name = "big");
	tell(&c, do_create, .name = "more", .size = 8 * MIB, .timeout = -1);
	waits_are(1);
	POINT(says(0, "",
		   "rank 2 (pid %d) waits for 8 MiB of device 0 to create more; 2 buffers take 14 MiB of its 16 MiB, "
		   "the largest is big (12 MiB): broker-ctl drain big\n",
		   c.pid),
	      "a create on a full device, and what takes most of it");
	tell(&a, do_acquire, .name = "more", .timeout = -1);
	waits_are(2);
	POINT(why("more") == 0 && strstr(answer, "waits for a buffer more; its creator, rank 2 (pid "),
	      "an acquire that waits for that create is followed to it");
	ask(&b, do_unlink, .name = "big");
	stop_child(b.pid);
	POINT(says(0, "more",
		   "rank 0 (pid %d) waits for a buffer more; its creator, rank 2 (pid %d), waits for 8 MiB of device 0 "
		   "to create more; 12 MiB of it is unlinked as big and used by rank 1 (pid %d), which is stopped by a "
		   "signal: kill -CONT %d\n"
		   "rank 2 (pid %d) waits for 8 MiB of device 0 to create more; 12 MiB of it is unlinked as big and "
		   "used by rank 1 (pid %d), which is stopped by a signal: kill -CONT %d\n",
		   a.pid, c.pid, b.pid, b.pid, c.pid, b.pid, b.pid),
	      "memory that is unlinked and still used comes first");
	kill(b.pid, SIGCONT);
	ask(&b, do_return);
	ask(&b, do_trim);
	POINT(!receive(&c) && !receive(&a), "when it is freed, both go on");
	unsetenv("GPUB_HOST_MEMORY");
	broker_pool = NULL;
	end();
}

/* ---- a broker that does not answer ---- */

/* Any broker that starts meanwhile, as other tests' do, removes the dead one's status file: it is put back then. */
static bool dead_is_explained(const char *kept, const char *path)
{
	(void)!link(kept, path);
	return why("heat/1") == 0 && strstr(answer, "' is dead. This is what it knew ");
}

static void test_stopped_and_dead_broker(void)
{
	char path[96], kept[64];

	begin();
	snprintf(path, sizeof path, "/dev/shm/gpubroker.%s", broker.instance);
	snprintf(kept, sizeof kept, "/dev/shm/why-%d", getpid());
	if (link(path, kept))
		bail_out("no other link to the status file: %m");
	ask(&c, do_wait, .slot = 1, .value = 4);
	POINT(!why("heat/1"), "a broker that runs is asked");
	broker_pause(&broker);
	POINT(why("heat/1") == 0 && strstr(answer, "' is stopped by a signal: kill -CONT ") &&
		      strstr(answer, "waits for heat/1 to reach 4; it is at 3; its writer, rank 1 (pid "),
	      "one that is stopped is explained by what its file holds");
	broker_resume(&broker);
	broker_wait(&broker, SIGKILL);
	POINT(SOON(dead_is_explained(kept, path)) && strstr(answer, "), waited for nothing that the broker knew of\n"),
	      "so is one that is dead, and no process is looked at");
	unlink(kept); /* the status file itself stays: by it the next broker finds the dead one's memory objects */
	puppet_kill(&a);
	puppet_kill(&b);
	puppet_kill(&c);
}

int main(void)
{
	harness_begin("why", 240);
	test_stopped_writer();
	test_drain();
	test_drain_behind_a_container();
	test_full_device();
	test_stopped_and_dead_broker();
	return harness_end();
}

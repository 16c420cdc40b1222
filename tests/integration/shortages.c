/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shortages.c - too few descriptors, too little memory, and devices that fail: each a negative errno and an error
 * message, nothing leaked, and the broker goes on.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "refusals.h"

static struct broker_process broker;
static struct puppet a;

/* ---- not enough of something ---- */

static int descriptors(void)
{
	int count = 0;

	for (int fd = 0; fd < 64; fd++)
		count += !fcntl(fd, F_GETFD);
	return count;
}

static void allow_descriptors(rlim_t most)
{
	struct rlimit limit = { most, 1024 };

	setrlimit(RLIMIT_NOFILE, &limit);
}

/* Each call until it has enough: refused with an error message, nothing left open. */
static int few_descriptors(const struct order *order)
{
	rlim_t most = 1;
	int before = descriptors(), error;

	while (allow_descriptors(most), (error = gpub_connect(&client, NULL)) && most++ < 64) {
		REFUSE(error, -EMFILE);
		ALSO(descriptors() == before);
	}
	before = descriptors();
	while (allow_descriptors(most),
	       (error = gpub_acquire(client, order->name, GPUB_WRITE, 0, &lease[0])) && most++ < 64) {
		REFUSE(error, -EMFILE);
		ALSO(descriptors() == before);
	}
	before = descriptors();
	allow_descriptors(3);
	if (!gpub_stream_create(client, 0, &work))
		REFUSE(gpub_signal_on(&lease[0], 1, work), -EMFILE);
	ALSO(descriptors() == before);
	allow_descriptors(1024);
	ALSO(!gpub_signal_on(&lease[0], 1, work) && !gpub_stream_sync(work));
	return verdict();
}

/* The memory of the second buffer is mapped by the first one: its timeline alone needs a descriptor. */
static int no_descriptor_for_a_timeline(const struct order *order)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	int before;

	(void)order;
	spec.size = 256;
	spec.flags = GPUB_TIMELINE;
	ALSO(!gpub_create(client, "s/1", &spec) && !gpub_create(client, "s/2", &spec));
	ALSO(!gpub_acquire(client, "s/1", GPUB_READ, 0, &lease[1]));
	before = descriptors();
	allow_descriptors(3);
	REFUSE(gpub_acquire(client, "s/2", GPUB_READ, 0, &lease[2]), -EMFILE);
	ALSO(strstr(gpub_strerror_last(), "timeline") && descriptors() == before);
	allow_descriptors(1024);
	ALSO(!gpub_acquire(client, "s/2", GPUB_READ, 0, &lease[2]));
	return verdict();
}

static void test_few_descriptors(void)
{
	struct puppet b;

	broker_start(&broker, "host");
	puppet_start(&b, &broker);
	ask(&b, do_create, .name = "x", .flags = GPUB_TIMELINE);
	puppet_start_unconnected(&a, &broker);
	POINT(!ask(&a, few_descriptors, .name = "x"), "too few descriptors: EMFILE, none is lost, and then it works");
	POINT(!ask(&a, no_descriptor_for_a_timeline), "no descriptor for a timeline in memory that is mapped: EMFILE");
	POINT(SOON(status_holders(&broker, "x", 0) == 1), "the mappings that could not be used were given back");
	puppet_end(&a);
	puppet_end(&b);
	broker_end(&broker);
}

static int fail_next(const struct order *order)
{
	return setenv("GPUB_HOST_FAIL", order->name, 1);
}

static void test_client_faults(void)
{
	broker_start(&broker, "host");
	puppet_start_unconnected(&a, &broker);
	ask(&a, fail_next, .name = "register:1:ENOMEM,open:1:ENOMEM,close:1:EIO,write:1:EIO");
	ask(&a, do_connect);
	ask(&a, do_create, .name = "x");
	POINT(ask(&a, do_acquire, .name = "x") == -ENOMEM, "a page that cannot be registered: ENOMEM");
	POINT(ask(&a, do_acquire, .name = "x") == -ENOMEM, "a handle that cannot be opened: ENOMEM");
	POINT(SOON(status_counter(&broker, "mappings_closed") == 2), "both mappings are given back");
	POINT(!ask(&a, do_acquire, .name = "x") && !ask(&a, do_stream), "then it works");
	POINT(ask(&a, do_return_on) == -EIO, "a return that cannot be queued: EIO");
	POINT(!ask(&a, do_return), "and the lease is still held: it can be returned otherwise");
	ask(&a, do_unlink, .name = "x");
	POINT(ask(&a, do_trim) == -EIO, "a close that fails: EIO");
	status_stable(&broker, &a);
	POINT(status_holders(&broker, "x", a.pid) == 1, "invariant 2: what failed to close is not freed");
	puppet_kill(&a);
	POINT(SOON(!status_buffers(&broker, "x", NULL)), "until its process is dead");
	broker_end(&broker);
}

static void test_broker_faults(void)
{
	static const int wanted[] = { -ENOSPC, -EIO, -EIO };

	small_broker_start(&broker, "allocate:1:ENOSPC,zero:1:EIO,export:1:EIO");
	puppet_start(&a, &broker);
	for (int i = 0; i < 3; i++)
		POINT(ask(&a, do_create, .name = "x", .size = 1u << 20) == wanted[i] && strlen(a.last.text) > 20,
		      "a create that the device fails: %s", a.last.text);
	POINT(!memory_objects(&broker), "nothing is left of them");
	POINT(!ask(&a, do_create, .name = "x", .size = 1u << 20) && !ask(&a, do_acquire, .name = "x"),
	      "then the whole device is to be had");
	puppet_end(&a);
	broker_end(&broker);
}

/* A /dev/shm of this process and its children alone. */
static bool small_shm(void)
{
	return !unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
	       !mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1280k");
}

/* The last one: this process cannot go back. */
static void test_full_shm(void)
{
	if (tested_export()->by_descriptor || !small_shm()) {
		POINT(true, "shared memory is full # SKIP needs files in a /dev/shm of its own");
		return;
	}
	broker_start(&broker, "host");
	puppet_start(&a, &broker);
	POINT(ask(&a, do_create, .name = "x", .size = 1u << 20) == -ENOSPC && strstr(a.last.text, "/dev/shm"),
	      "shared memory is full: ENOSPC, %s", a.last.text);
	POINT(!ask(&a, do_create, .name = "x", .size = 1u << 16) && !ask(&a, do_acquire, .name = "x") &&
		      !ask(&a, do_write, .value = 1),
	      "less than that fits");
	puppet_end(&a);
	broker_end(&broker);
}

int main(void)
{
	harness_begin("shortages", 60);
	test_few_descriptors();
	test_client_faults();
	test_broker_faults();
	test_full_shm();
	return harness_end();
}

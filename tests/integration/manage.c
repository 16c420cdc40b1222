/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manage.c - gpub_chmod, gpub_chown and gpub_drain through the public interface.
 *
 * All clients are one user's, which is the broker's own: who else may do what is tests/unit/broker/test-manage.c's.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

static struct broker_process broker;
static struct puppet a, b;

/* ---- steps ---- */

static int do_chmod(const struct order *order)
{
	return gpub_chmod(client, order->name, (uint32_t)order->value);
}

/* order.value: the owner; order.size: the group. */
static int do_chown(const struct order *order)
{
	return gpub_chown(client, order->name, (uint32_t)order->value, (uint32_t)order->size);
}

static int do_drain(const struct order *order)
{
	return gpub_drain(client, order->name, order->timeout);
}

static int info_get(const struct order *order, gpub_info *info)
{
	*info = (gpub_info){ .struct_size = sizeof *info };
	return gpub_stat(client, order->name, info);
}

static int do_mode(const struct order *order)
{
	gpub_info info;
	int error = info_get(order, &info);

	step_value = info.mode;
	return error;
}

static int do_owner(const struct order *order)
{
	gpub_info info;
	int error = info_get(order, &info);

	step_value = (uint64_t)info.owner << 32 | info.group;
	return error;
}

/* ---- the world ---- */

static void begin(void)
{
	broker_start(&broker, "host");
	puppet_start(&a, &broker);
	puppet_start(&b, &broker);
	ask(&a, do_create, .name = "x");
}

static void end(void)
{
	puppet_end(&a);
	puppet_end(&b);
	broker_end(&broker);
}

static bool gone(const char *name)
{
	return !status_buffers(&broker, name, NULL);
}

static bool mode_is(uint64_t mode)
{
	return !ask(&b, do_mode, .name = "x") && b.last.value == mode;
}

static bool owner_is(uint64_t owner, uint64_t group)
{
	return !ask(&b, do_owner, .name = "x") && b.last.value == (owner << 32 | group);
}

/* ---- chmod, chown ---- */

static void test_chmod(void)
{
	begin();
	POINT(mode_is(0600), "a buffer is its owner's");
	POINT(!ask(&a, do_chmod, .name = "x", .value = 0640) && mode_is(0640), "its mode can be changed");
	POINT(ask(&a, do_chmod, .name = "x", .value = 01640) == -EINVAL && mode_is(0640), "to permission bits alone");
	POINT(ask(&a, do_chmod, .name = "y", .value = 0600) == -ENOENT, "of a buffer that is there");
	POINT(ask(&a, do_chmod, .name = "/y", .value = 0600) == -EINVAL, "by a name that can be one");
	ask(&b, do_acquire, .name = "x");
	POINT(!ask(&a, do_chmod, .name = "x", .value = 0) && !ask(&b, do_write, .value = 1) && !ask(&b, do_return) &&
		      !ask(&b, do_renew),
	      "what is mapped stays mapped");
	end();
}

static void test_chown(void)
{
	uint64_t user = geteuid(), group = getegid();

	begin();
	POINT(owner_is(user, group), "a buffer has its creator's user and group");
	POINT(!ask(&a, do_chown, .name = "x", .value = GPUB_KEEP, .size = group) && owner_is(user, group),
	      "it can be given to a group");
	POINT(ask(&a, do_chown, .name = "x", .value = GPUB_KEEP, .size = GPUB_KEEP) == -EINVAL,
	      "or to somebody at least");
	POINT(ask(&a, do_chown, .name = "y", .value = user, .size = GPUB_KEEP) == -ENOENT, "where it is there");
	/* the broker's own user rules over its buffers, as root does */
	POINT(!ask(&a, do_chown, .name = "x", .value = 4001, .size = 4002) && owner_is(4001, 4002),
	      "the broker's user gives it to another user");
	POINT(!ask(&a, do_chown, .name = "x", .value = GPUB_KEEP, .size = group) && owner_is(4001, group),
	      "or the group alone");
	POINT(!ask(&a, do_chown, .name = "x", .value = user, .size = GPUB_KEEP) && owner_is(user, group),
	      "or the owner alone");
	end();
}

/* ---- drain ---- */

static void test_drain(void)
{
	broker_pool = "0"; /* the memory's end is to be seen */
	begin();
	ask(&b, do_acquire, .name = "x");
	tell(&a, do_drain, .name = "x", .timeout = -1);
	POINT(SOON(status_buffers(&broker, "x", "draining") == 1), "a drain takes the name away at once");
	POINT(SOON(status_number(&broker, "waiting") == 1), "and people see that somebody waits");
	status_stable(&broker, &b);
	POINT(!puppet_answered(&a) && !gone("x"), "it waits for the session that has the buffer");
	POINT(ask(&b, do_drain, .name = "x", .timeout = 0) == -ENOENT && strstr(b.last.text, "stat says who"),
	      "a second drain finds no name, and says how to see who holds what had it");
	ask(&b, do_return);
	POINT(!puppet_answered(&a) && !gone("x"), "also when that has returned it, and not closed it");
	ask(&b, do_trim);
	POINT(!receive(&a), "and is done when that has");
	POINT(!status_buffers(&broker, "x", "live") && SOON(gone("x") && !memory_objects(&broker)),
	      "the memory is freed then");
	end();
	broker_pool = NULL;
}

static void test_drain_of_its_own(void)
{
	begin();
	ask(&a, do_acquire, .name = "x");
	ask(&a, do_return);
	POINT(!ask(&a, do_drain, .name = "x", .timeout = -1),
	      "what the drainer itself keeps mapped for nothing it closes");
	POINT(SOON(gone("x")), "and so the memory is freed");
	POINT(ask(&a, do_drain, .name = "x", .timeout = -1) == -ENOENT, "a second time there is nothing to drain");
	POINT(ask(&a, do_drain, .name = "x", .timeout = -2) == -EINVAL, "a timeout is one, or -1");
	end();
}

static void test_drain_times_out(void)
{
	begin();
	ask(&b, do_acquire, .name = "x");
	POINT(ask(&a, do_drain, .name = "x", .timeout = 30) == -ETIMEDOUT && strstr(a.last.text, "'x'"),
	      "a drain that comes too late says so");
	POINT(ask(&a, do_stat, .name = "x") == -ENOENT && SOON(status_buffers(&broker, "x", "draining") == 1),
	      "the name is gone all the same, and the memory is not");
	POINT(SOON(status_number(&broker, "waiting") == 0), "nobody waits any more");
	ask(&b, do_return);
	ask(&b, do_trim);
	POINT(SOON(gone("x")), "until who has it lets go");
	ask(&a, do_create, .name = "y");
	ask(&a, do_acquire, .name = "y");
	POINT(ask(&a, do_drain, .name = "y", .timeout = 0) == -ETIMEDOUT,
	      "a lease of its own is waited for like any other's");
	ask(&a, do_return);
	ask(&a, do_trim);
	POINT(SOON(gone("y")), "it is freed when all is closed");
	end();
}

static void test_drain_ends_by_death(void)
{
	begin();
	ask(&b, do_acquire, .name = "x");
	tell(&a, do_drain, .name = "x", .timeout = -1);
	POINT(SOON(status_buffers(&broker, "x", "draining") == 1), "a drain waits");
	puppet_kill(&b);
	POINT(!receive(&a) && SOON(gone("x")), "invariant 10: the death of the session that had it ends it");
	puppet_end(&a);
	broker_end(&broker);
}

static void test_drainer_dies(void)
{
	begin();
	ask(&b, do_acquire, .name = "x");
	tell(&a, do_drain, .name = "x", .timeout = -1);
	POINT(SOON(status_number(&broker, "waiting") == 1), "a drain waits");
	puppet_kill(&a);
	POINT(SOON(!status_session(&broker, a.pid, NULL)) && !ask(&b, do_read),
	      "the session that drains may die first");
	status_stable(&broker, &b);
	POINT(status_buffers(&broker, "x", "draining") == 1, "invariant 2: nothing is freed for that");
	ask(&b, do_return);
	ask(&b, do_trim);
	POINT(SOON(gone("x") && status_number(&broker, "waiting") == 0), "and the buffer goes when it may");
	puppet_end(&b);
	broker_end(&broker);
}

int main(void)
{
	harness_begin("manage", 60);
	test_chmod();
	test_chown();
	test_drain();
	test_drain_of_its_own();
	test_drain_times_out();
	test_drain_ends_by_death();
	test_drainer_dies();
	return harness_end();
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drain.c - from unlink to free: which sessions are waited for, which are not, and what goes on meanwhile.
 *
 * Also what waits for memory: creates are queued, and get what a drain, a trim or a death gives back.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>

#include "harness.h"

static struct broker_process broker;
static struct puppet a, b, c;

static void begin(const char *device)
{
	broker_start(&broker, device);
	puppet_start(&a, &broker);
	puppet_start(&b, &broker);
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

/* ---- a drain waits for sessions with leases ---- */

/* Where nothing is kept the memory's end is seen, too. */
static void test_unlink_while_held(const char *pool)
{
	broker_pool = pool;
	begin("host");
	ask(&a, do_create, .name = "x");
	ask(&a, do_acquire, .name = "x");
	ask(&b, do_acquire, .name = "x");
	ask(&b, do_write, .value = 11);
	POINT(!ask(&a, do_unlink, .name = "x"), "unlink while two hold it succeeds at once");
	POINT(ask(&b, do_stat, .name = "x") == -ENOENT, "the name is gone at once");
	POINT(ask(&b, do_acquire, .name = "x", .slot = 1) == -ENOENT,
	      "invariant 8: a holder cannot acquire the old generation again");
	POINT(!ask(&a, do_read) && a.last.value == 11, "the holder reads what the other wrote");
	ask(&a, do_return);
	ask(&a, do_trim);
	POINT(SOON(status_holders(&broker, "x", 0) == 1), "invariant 2: the one that returned and trimmed is done");
	status_stable(&broker, &a);
	POINT(status_buffers(&broker, "x", "draining") == 1 && memory_objects(&broker) == 1,
	      "invariant 2: not freed while the other holds it");
	ask(&b, do_return);
	status_stable(&broker, &b);
	POINT(status_holders(&broker, "x", b.pid) == 1, "invariant 2: a return alone is not the end of the mapping");
	ask(&b, do_trim);
	POINT(SOON(gone("x") && (!pool || !memory_objects(&broker))), "freed after the last trim");
	end();
	broker_pool = NULL;
}

static void test_stopped_holder(void)
{
	begin("host");
	ask(&a, do_create, .name = "x");
	ask(&b, do_acquire, .name = "x");
	stop_child(b.pid);
	POINT(!ask(&a, do_unlink, .name = "x"), "invariant 5: unlink does not wait for a stopped holder");
	POINT(!ask(&a, do_create, .name = "x") && !ask(&a, do_acquire, .name = "x") && !ask(&a, do_return) &&
		      !ask(&a, do_create, .name = "y") && !ask(&a, do_unlink, .name = "y") && !ask(&a, do_trim),
	      "invariant 5: others create, acquire, unlink and trim meanwhile");
	POINT(SOON(gone("y")), "invariant 5: other buffers are freed meanwhile");
	status_stable(&broker, &a);
	POINT(status_buffers(&broker, "x", "draining") == 1 && status_holders(&broker, "x", b.pid) == 1,
	      "invariant 2: what the stopped one holds is not freed");
	kill(b.pid, SIGCONT);
	ask(&b, do_return);
	ask(&b, do_trim);
	POINT(SOON(!status_buffers(&broker, "x", "draining")), "freed once it went on, returned and trimmed");
	end();
}

/* The kernel stands behind a wait for the other process, so that nothing hangs on how fast anything is. */
static void test_device_work(void)
{
	begin("host");
	ask(&a, do_create, .name = "x");
	ask(&a, do_create, .name = "gate", .flags = GPUB_TIMELINE);
	ask(&a, do_stream);
	ask(&b, do_stream);
	ask(&a, do_acquire, .name = "x");
	ask(&a, do_acquire, .name = "gate", .slot = 1);
	ask(&b, do_acquire, .name = "gate");
	ask(&a, do_wait, .slot = 1, .value = 1);
	ask(&a, do_late_write, .value = 7);
	POINT(!ask(&a, do_return_on), "invariant 7: a return behind unfinished device work does not wait for it");
	ask(&a, do_unlink, .name = "x");
	tell(&a, do_trim);
	status_stable(&broker, &b);
	POINT(!puppet_answered(&a) && status_holders(&broker, "x", a.pid) == 1,
	      "invariant 7: the work delays trim and free");
	ask(&b, do_signal, .value = 1);
	POINT(!receive(&a) && SOON(gone("x")), "when it is done both go on");
	end(); /* a late write into freed memory would be found here */
}

static void test_generations(void)
{
	uint64_t first;

	begin("host");
	ask(&a, do_create, .name = "x");
	ask(&a, do_stat, .name = "x");
	first = a.last.value;
	ask(&a, do_acquire, .name = "x");
	ask(&a, do_write, .value = 1);
	ask(&a, do_unlink, .name = "x");
	POINT(!ask(&b, do_create, .name = "x"), "the name can be made anew while the old one drains");
	POINT(!ask(&a, do_acquire, .name = "x", .slot = 1) && !ask(&a, do_stat, .name = "x") &&
		      a.last.value > first,
	      "and be acquired by one that holds the old one: a new generation");
	ask(&a, do_write, .slot = 1, .value = 2);
	POINT(!ask(&a, do_read) && a.last.value == 1, "the two do not share memory");
	POINT(SOON(status_buffers(&broker, "x", "draining") == 1 && status_buffers(&broker, "x", "live") == 1),
	      "the status has both");
	ask(&a, do_return);
	POINT(ask(&a, do_renew) == -ESTALE, "invariant 8: a lease of the old one is not renewed into the new one");
	ask(&a, do_trim);
	POINT(SOON(!status_buffers(&broker, "x", "draining") && status_holders(&broker, "x", a.pid) == 1),
	      "a trim frees the old one and leaves the held new one");
	POINT(!ask(&a, do_read, .slot = 1) && a.last.value == 2, "which is still there");
	end();
}

static void test_zeroed(void)
{
	begin("host");
	ask(&a, do_create, .name = "x");
	ask(&a, do_acquire, .name = "x");
	ask(&a, do_write, .value = ~0ull);
	ask(&a, do_return);
	ask(&a, do_unlink, .name = "x");
	ask(&a, do_trim);
	POINT(SOON(gone("x")), "the first buffer is freed");
	ask(&b, do_create, .name = "x");
	ask(&b, do_acquire, .name = "x");
	POINT(!ask(&b, do_read) && !b.last.value, "invariant 6: a new buffer is zeros");
	end();
}

static void test_background_close(void)
{
	begin("host");
	POINT(!ask(&b, do_flags, .flags = GPUB_BACKGROUND_CLOSE), "GPUB_BACKGROUND_CLOSE is taken");
	ask(&a, do_create, .name = "x");
	ask(&b, do_acquire, .name = "x");
	ask(&a, do_unlink, .name = "x");
	ask(&a, do_create, .name = "y");
	ask(&a, do_unlink, .name = "y");
	POINT(SOON(gone("y") && status_holders(&broker, "x", b.pid) == 1),
	      "in the background nothing is closed that is held");
	ask(&b, do_return);
	POINT(SOON(gone("x")), "what was returned is closed without a trim");
	end();
}

static void test_ephemeral(void)
{
	begin("host");
	ask(&a, do_create, .name = "a", .flags = GPUB_EPHEMERAL);
	ask(&a, do_create, .name = "b", .flags = GPUB_EPHEMERAL);
	ask(&a, do_create, .name = "kept");
	ask(&b, do_acquire, .name = "b");
	puppet_kill(&a);
	POINT(SOON(gone("a")), "an ephemeral buffer goes with its creator's death");
	POINT(SOON(status_buffers(&broker, "b", "draining") == 1), "one that another holds drains");
	POINT(SOON(status_buffers(&broker, "kept", "live") == 1), "one that is not ephemeral stays");
	ask(&b, do_return);
	ask(&b, do_trim);
	POINT(SOON(gone("b")), "the drained one is freed when the other is done");
	ask(&b, do_create, .name = "c", .flags = GPUB_EPHEMERAL);
	puppet_end(&b);
	POINT(SOON(gone("c")), "an ephemeral buffer goes with its creator's disconnect");
	broker_end(&broker);
}

/* ---- creates that wait for memory ---- */

#define MIB (1ull << 20)

static bool waiting(int64_t count)
{
	return status_number(&broker, "waiting") == count;
}

static void begin_small(void)
{
	setenv("GPUB_HOST_MEMORY", "1M", 1);
	begin("host");
	puppet_start(&c, &broker);
	unsetenv("GPUB_HOST_MEMORY");
}

static void test_memory_line(void)
{
	begin_small();
	ask(&a, do_create, .name = "full", .size = MIB);
	ask(&a, do_acquire, .name = "full");
	POINT(ask(&b, do_create, .name = "b", .size = MIB) == -ENOMEM,
	      "a full device refuses at once without a timeout");
	POINT(ask(&b, do_create, .name = "b", .size = MIB, .timeout = 30) == -ENOMEM, "and after the timeout with one");
	status_stable(&broker, &a); /* nobody waits any more, and the status file knows */
	tell(&b, do_create, .name = "b", .size = MIB, .timeout = -1);
	POINT(SOON(waiting(1)), "one is queued");
	tell(&c, do_create, .name = "c", .size = 4096, .timeout = -1);
	POINT(SOON(waiting(2)), "a second is queued");
	ask(&a, do_return);
	ask(&a, do_unlink, .name = "full");
	POINT(!puppet_answered(&b) && !puppet_answered(&c), "invariant 2: nobody gets memory that is still mapped");
	ask(&a, do_trim);
	POINT(!receive(&b), "the first in the queue gets the memory that another's trim gave back");
	POINT(SOON(waiting(1)) && !puppet_answered(&c), "the second goes on waiting: first come, first served");
	ask(&b, do_unlink, .name = "b");
	POINT(!receive(&c), "and gets it when the first is done");
	puppet_end(&c);
	end();
}

static void test_memory_by_death(void)
{
	begin_small();
	ask(&a, do_create, .name = "a", .size = MIB, .flags = GPUB_EPHEMERAL);
	ask(&a, do_acquire, .name = "a");
	tell(&b, do_create, .name = "b", .size = MIB, .timeout = -1);
	POINT(SOON(waiting(1)), "one waits for what another holds");
	tell(&c, do_create, .name = "c", .size = MIB, .timeout = -1);
	POINT(SOON(waiting(2)), "another waits behind it");
	puppet_kill(&b);
	POINT(SOON(waiting(1)), "one that dies in the queue leaves it");
	puppet_kill(&a);
	POINT(!receive(&c), "the next gets what a death gave back");
	POINT(!status_buffers(&broker, "b", NULL), "the dead one's buffer was not made");
	puppet_end(&c);
	broker_end(&broker);
}

static void test_memory_own_cache(void)
{
	begin_small();
	ask(&a, do_create, .name = "old", .size = MIB);
	ask(&a, do_acquire, .name = "old");
	ask(&a, do_return);
	ask(&b, do_unlink, .name = "old");
	POINT(!ask(&a, do_create, .name = "new", .size = MIB, .timeout = -1),
	      "a create gives back what its own process keeps mapped for nothing");
	puppet_end(&c);
	end();
}

static void test_memory(void)
{
	if (on_cuda()) {
		point_skip("creates that wait for memory, and where it comes from: a device with 1 MiB");
		return;
	}
	test_memory_line();
	test_memory_by_death();
	test_memory_own_cache();
}

static void test_broker_end_drains(void)
{
	begin("host");
	ask(&a, do_create, .name = "x");
	ask(&b, do_acquire, .name = "x");
	puppet_end(&a);
	close(broker.in);
	POINT(SOON(status_buffers(&broker, "x", "draining") == 1), "a broker whose workers ended takes the names away");
	POINT(SOON(broker_said(&broker, "still maps")), "and says which sessions it waits for");
	POINT(ask(&b, do_create, .name = "y") == -ECONNREFUSED, "nothing is made any more");
	broker.in = open("/dev/null", O_RDONLY | O_CLOEXEC); /* for broker_wait(), which sends no signal then */
	puppet_end(&b);
	broker_end(&broker);
}

int main(void)
{
	harness_begin("drain", 60);
	test_unlink_while_held(NULL);
	test_unlink_while_held("0");
	test_stopped_holder();
	test_device_work();
	test_generations();
	test_zeroed();
	test_background_close();
	test_ephemeral();
	test_memory();
	test_broker_end_drains();
	return harness_end();
}

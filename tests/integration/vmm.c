/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vmm.c - memory that is exported by descriptors (--export vmm): what the broker wants back is closed without a call of
 * the program's, as soon as the returns prove that the device is done with it, and no sooner; and leases are mapped as
 * their rights are.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

#define MIB         (1u << 20)
#define DESCRIPTORS 256

static struct broker_process broker;
static struct puppet a, b;

static void begin(void)
{
	broker_pool = "0";
	broker_start(&broker, "host");
	puppet_start(&a, &broker);
	puppet_start(&b, &broker);
	if (ask(&b, do_stream))
		bail_out("no stream: %s", b.last.text);
}

static void end(void)
{
	puppet_end(&b);
	puppet_end(&a);
	broker_end(&broker);
}

static bool is_freed(const char *name)
{
	return !status_buffers(&broker, name, NULL);
}

/* The other process computes all the time, and makes no call. */
static void test_beside_a_kernel(void)
{
	begin();
	ask(&a, do_create, .name = "busy", .size = 4 * MIB);
	ask(&a, do_create, .name = "x", .size = 4 * MIB);
	POINT(!ask(&b, do_acquire, .name = "busy", .slot = 1) && !ask(&b, do_write, .slot = 1, .value = 1) &&
		      !ask(&b, do_acquire, .name = "x") && !ask(&b, do_write, .value = 5) && !ask(&b, do_read) &&
		      b.last.value == 5,
	      "memory that came by a descriptor can be written and read");
	POINT(!ask(&b, do_return_on) && !ask(&b, do_sync), "it is returned in stream order");
	ask(&b, do_late_write, .slot = 1, .value = 2, .timeout = 5000);
	ask(&a, do_unlink, .name = "x");
	POINT(SOON(is_freed("x")) && memory_objects(&broker) == 1,
	      "unlinked, it is freed without a call of its holder's");
	POINT(!ask(&b, do_read, .slot = 1) && b.last.value == 1, "while the holder's kernel runs on");
	POINT(!ask(&b, do_sync) && !ask(&b, do_read, .slot = 1) && b.last.value == 2, "which ends in order");
	end();
}

static void test_not_landed(void)
{
	begin();
	ask(&a, do_create, .name = "x", .size = 4 * MIB);
	ask(&b, do_acquire, .name = "x");
	ask(&b, do_late_write, .value = 2, .timeout = 1500);
	POINT(!ask(&b, do_return_on), "it is returned behind a kernel that uses it");
	ask(&a, do_unlink, .name = "x");
	status_stable(&broker, &b);
	POINT(!is_freed("x") && memory_objects(&broker) == 1, "invariant 2: it stays until the kernel has ended");
	POINT(!ask(&b, do_sync) && SOON(is_freed("x")), "then it is freed, without another call");
	end();
}

static void test_unordered(void)
{
	begin();
	ask(&a, do_create, .name = "x", .size = 4 * MIB);
	ask(&b, do_acquire, .name = "x");
	ask(&b, do_late_write, .value = 2, .timeout = 1000);
	POINT(!ask(&b, do_return), "it is returned unordered while a kernel uses it");
	ask(&a, do_unlink, .name = "x");
	ask(&b, do_sync);
	status_stable(&broker, &b);
	POINT(!is_freed("x"), "invariant 2: no return proves that the device is done with it");
	POINT(!ask(&b, do_trim) && SOON(is_freed("x")), "a call that synchronises closes it");
	ask(&a, do_create, .name = "y", .size = 4 * MIB);
	ask(&b, do_acquire, .name = "y");
	ask(&b, do_late_write, .value = 2, .timeout = 1000);
	ask(&b, do_return);
	POINT(!ask(&b, do_trim) && !ask(&b, do_acquire, .name = "y") && !ask(&b, do_read) && b.last.value == 2,
	      "invariant 2: the close waits for the kernel first");
	end();
}

static void test_held(void)
{
	begin();
	ask(&a, do_create, .name = "x", .size = 4 * MIB);
	ask(&b, do_acquire, .name = "x");
	ask(&b, do_write, .value = 7);
	ask(&a, do_unlink, .name = "x");
	status_stable(&broker, &b);
	POINT(!ask(&b, do_read) && b.last.value == 7 && !is_freed("x"), "invariant 2: what a lease holds stays mapped");
	POINT(!ask(&b, do_return_on) && SOON(is_freed("x")), "until it is returned in stream order");
	end();
}

/* ---- rights ---- */

/* Copies a value into the lease. */
static int do_copy_in(const struct order *order)
{
	int error = gpub_copy_on(client, lease[order->slot].ptr, &order->value, sizeof order->value, work);

	return error ? error : gpub_stream_sync(work);
}

/* 1: two leases, and two mappings of one memory. */
static int do_compare(const struct order *order)
{
	uint64_t seen = 0;
	int error = poke(lease[2].ptr, order->value);

	if (!error)
		error = peek(lease[1].ptr, &seen);
	return error ? error : lease[1].ptr != lease[2].ptr && seen == order->value;
}

static void rights_of(uint64_t size)
{
	struct puppet c;
	int status = 0;

	ask(&a, do_create, .name = "x", .size = size);
	ask(&a, do_acquire, .name = "x");
	ask(&a, do_write, .value = 4);
	POINT(!ask(&b, do_acquire, .name = "x", .slot = 1, .rights = GPUB_READ) && !ask(&b, do_read, .slot = 1) &&
		      b.last.value == 4,
	      "%llu bytes: a lease with GPUB_READ alone can be read", (unsigned long long)size);
	POINT(ask(&b, do_copy_in, .slot = 1, .value = 5) < 0 && !ask(&b, do_read, .slot = 1) && b.last.value == 4,
	      "a copy to it is refused");
	POINT(!ask(&b, do_acquire, .name = "x", .slot = 2) && ask(&b, do_compare, .value = 6) == 1,
	      "a lease with GPUB_WRITE beside it is another mapping of the same memory");
	POINT(!ask(&b, do_return_on, .slot = 1) && !ask(&b, do_return_on, .slot = 2) && !ask(&b, do_renew, .slot = 1) &&
		      !ask(&b, do_renew, .slot = 2) && ask(&b, do_compare, .value = 7) == 1,
	      "each is renewed as it was");
	POINT(!ask(&b, do_copy_in, .slot = 2, .value = 8) && !ask(&a, do_read) && a.last.value == 8,
	      "what it writes, others see");
	puppet_start(&c, &broker);
	ask(&c, do_stream);
	ask(&c, do_acquire, .name = "x", .rights = GPUB_READ);
	tell(&c, do_late_write, .value = 9);
	if (on_cuda()) {
		receive(&c);
		POINT(ask(&c, do_sync) < 0,
		      "a kernel that writes through a lease with GPUB_READ alone ends in an error: %s", c.last.text);
		kill(c.pid, SIGKILL);
	}
	waitpid(c.pid, &status, 0);
	if (!on_cuda())
		POINT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT,
		      "a kernel that writes through a lease with GPUB_READ alone ends its process (%#x)", status);
	POINT(!ask(&a, do_read) && a.last.value == 8 && !ask(&b, do_sync) && ask(&b, do_compare, .value = 10) == 1,
	      "and nobody else notices");
	ask(&a, do_return);
	ask(&b, do_return_on, .slot = 1);
	ask(&b, do_return_on, .slot = 2);
	ask(&a, do_unlink, .name = "x");
	POINT(!ask(&a, do_trim) && SOON(is_freed("x")) && SOON(!memory_objects(&broker)),
	      "both mappings are closed when it is unlinked");
}

static void test_rights(void)
{
	begin();
	rights_of(4 * MIB);
	rights_of(1000);
	end();
}

/* ---- one address ---- */

static int do_address(const struct order *order)
{
	step_value = (uintptr_t)lease[order->slot].ptr;
	return 0;
}

/* Maps something of this process's own there, or unmaps it again. */
static int do_take_address(const struct order *order)
{
	void *address = (void *)(uintptr_t)order->value;

	if (order->flags)
		return munmap(address, 4096) ? -errno : 0;
	return mmap(address, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == address ?
		       0 :
		       -errno;
}

static uint64_t address_of(struct puppet *puppet)
{
	return ask(puppet, do_address) ? 0 : puppet->last.value;
}

static void test_same_address(void)
{
	struct puppet c;
	uint64_t first;

	setenv("GPUBROKER_EXPORT", "ipc", 1);
	begin();
	setenv("GPUBROKER_EXPORT", "vmm", 1);
	ask(&a, do_create, .name = "tree", .size = 1000, .flags = GPUB_SAME_ADDRESS);
	POINT(!ask(&a, do_acquire, .name = "tree") && !ask(&b, do_acquire, .name = "tree", .rights = GPUB_READ) &&
		      address_of(&a) && address_of(&a) == address_of(&b),
	      "GPUB_SAME_ADDRESS: both processes map it at %#llx, whatever the broker exports",
	      (unsigned long long)address_of(&a));
	first = address_of(&a);
	POINT(!ask(&a, do_write, .value = 7) && !ask(&b, do_read) && b.last.value == 7, "it is one memory");
	POINT(ask(&b, do_copy_in, .value = 8) < 0, "which who reads it cannot write");
	POINT(!ask(&b, do_acquire, .name = "tree", .slot = 2) && !ask(&b, do_copy_in, .slot = 2, .value = 8) &&
		      address_of(&b) == first,
	      "until it is acquired to be written, at that address");
	POINT(!ask(&a, do_read) && a.last.value == 8, "which the other sees");
	POINT(!ask(&b, do_return_on) && !ask(&b, do_return_on, .slot = 2) && !ask(&a, do_rename, .name = "tree wood") &&
		      !ask(&b, do_acquire, .name = "wood", .rights = GPUB_READ) && address_of(&b) == first &&
		      !ask(&b, do_read) && b.last.value == 8,
	      "a new name and generation keep the address");
	ask(&a, do_create, .name = "other", .size = 64 * MIB, .flags = GPUB_SAME_ADDRESS);
	POINT(!ask(&a, do_acquire, .name = "other", .slot = 1) && !ask(&a, do_write, .slot = 1, .value = 3) &&
		      !ask(&b, do_read) && b.last.value == 8,
	      "another buffer has other addresses");
	ask(&a, do_return_on, .slot = 1);
	ask(&a, do_return_on);
	ask(&b, do_return_on);
	ask(&a, do_unlink, .name = "wood");
	ask(&a, do_unlink, .name = "other");
	POINT(SOON(is_freed("wood")) && SOON(is_freed("other")) && SOON(!memory_objects(&broker)),
	      "both are closed when their work is done, and freed");
	ask(&a, do_create, .name = "tree", .size = 1000, .flags = GPUB_SAME_ADDRESS);
	puppet_start(&c, &broker);
	ask(&c, do_stream);
	POINT(!ask(&c, do_take_address, .value = first) && ask(&c, do_acquire, .name = "tree") == -EADDRINUSE,
	      "where something else lies there, an acquire is refused");
	POINT(strstr(c.last.text, "are taken in this process"), "it says what: %s", c.last.text);
	POINT(!ask(&c, do_take_address, .value = first, .flags = 1) && !ask(&c, do_acquire, .name = "tree"),
	      "it works when that is gone: %s", c.last.text);
	POINT(!ask(&c, do_read) && !c.last.value && address_of(&c) == first, "a new buffer gets the freed address");
	ask(&c, do_return);
	puppet_end(&c);
	end();
}

/* name: of another broker's socket. Creates such a buffer there, and acquires it. */
static int do_use_of_another_broker(const struct order *order)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	gpub_client *other;
	gpub_lease held;
	int error = gpub_connect(&other, order->name);

	if (error)
		return error;
	spec.size = 1000;
	spec.flags = GPUB_SAME_ADDRESS;
	error = gpub_create(other, "tree", &spec);
	if (!error)
		error = gpub_acquire(other, "tree", GPUB_READ, 0, &held);
	step_value = error ? 0 : (uintptr_t)held.ptr;
	gpub_disconnect(other);
	return error;
}

static void test_two_brokers(void)
{
	struct broker_process second;
	struct order order = { .run = do_use_of_another_broker };

	broker_start(&second, "host");
	begin();
	ask(&a, do_create, .name = "tree", .size = 1000, .flags = GPUB_SAME_ADDRESS);
	ask(&a, do_acquire, .name = "tree");
	snprintf(order.name, sizeof order.name, "%s", second.address);
	puppet_tell(&a, order);
	POINT(!puppet_receive(&a) && a.last.value && a.last.value != address_of(&a),
	      "a process has such buffers of two brokers: %s", a.last.text);
	ask(&a, do_return);
	end();
	broker_end(&second);
}

/* ---- descriptors ---- */

/* Takes all descriptors of this process, or gives them back. */
static int do_hoard(const struct order *order)
{
	static const struct rlimit few = { DESCRIPTORS, DESCRIPTORS };
	static int hoard[DESCRIPTORS], count;

	if (order->value && setrlimit(RLIMIT_NOFILE, &few))
		return -errno;
	while (order->value && count < DESCRIPTORS && (hoard[count] = dup(0)) >= 0)
		count++;
	while (!order->value && count)
		close(hoard[--count]);
	return count;
}

static void test_no_descriptor_left(void)
{
	begin();
	ask(&a, do_create, .name = "x", .size = 4 * MIB);
	POINT(ask(&b, do_hoard, .value = 1) > 0 && ask(&b, do_acquire, .name = "x") == -EMFILE,
	      "no descriptor is left: EMFILE, %s", b.last.text);
	POINT(SOON(status_counter(&broker, "mappings_closed") == 1), "its mapping is given back");
	ask(&b, do_hoard);
	POINT(!ask(&b, do_acquire, .name = "x") && !ask(&b, do_write, .value = 3), "with one left it works");
	ask(&b, do_return);
	end();
}

/* What came cannot come again: the mapping is closed when no lease holds it, and the next acquire maps all of it. */
static void test_no_descriptor_for_a_chunk(void)
{
	begin();
	ask(&a, do_create, .name = "g", .size = 4 * MIB, .value = 16 * MIB);
	ask(&b, do_acquire, .name = "g");
	ask(&a, do_resize, .name = "g", .size = 8 * MIB);
	POINT(ask(&b, do_hoard, .value = 1) > 0 && ask(&b, do_acquire, .name = "g", .slot = 1) == -EMFILE,
	      "no descriptor is left for what a buffer grew by: EMFILE, %s", b.last.text);
	ask(&b, do_hoard);
	POINT(ask(&b, do_acquire, .name = "g", .slot = 1) == -ENOMEM,
	      "what is mapped is too short as long as a lease holds it: %s", b.last.text);
	POINT(!ask(&b, do_return_on) && SOON(!ask(&b, do_acquire, .name = "g", .slot = 1)),
	      "it is mapped anew behind that");
	ask(&b, do_return_on, .slot = 1);
	end();
}

int main(void)
{
	harness_begin("vmm", 120);
	setenv("GPUBROKER_EXPORT", "vmm", 1);
	test_beside_a_kernel();
	test_not_landed();
	test_unordered();
	test_held();
	test_rights();
	test_same_address();
	test_two_brokers();
	test_no_descriptor_left();
	test_no_descriptor_for_a_chunk();
	return harness_end();
}

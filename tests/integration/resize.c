/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resize.c - gpub_resize(): a buffer with a reserve grows in place in every process that uses it, by memory that is
 * zero, and shrinks while nobody maps it. What it costs is given back.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

#define MIB (1u << 20)

static struct broker_process broker;
static struct puppet a, b;

static void begin(void)
{
	broker_pool = "0";
	broker_start(&broker, "host:2");
	puppet_start(&a, &broker);
	puppet_start(&b, &broker);
	if (ask(&a, do_stream) || ask(&b, do_stream))
		bail_out("no stream: %s", b.last.text);
}

static void end(void)
{
	puppet_end(&b);
	puppet_end(&a);
	broker_end(&broker);
}

/* ---- steps ---- */

/* value: the bytes of the lease */
static int do_size(const struct order *order)
{
	step_value = lease[order->slot].size;
	return 0;
}

static int do_address(const struct order *order)
{
	step_value = (uintptr_t)lease[order->slot].ptr;
	return 0;
}

static int do_reserve(const struct order *order)
{
	gpub_info info = { .struct_size = sizeof info };
	int error = gpub_stat(client, order->name, &info);

	step_value = info.flags & GPUB_GROWABLE ? info.reserve : 0;
	return error;
}

/* At byte size of the lease. */
static int do_poke(const struct order *order)
{
	return poke((char *)lease[order->slot].ptr + order->size, order->value);
}

static int do_peek(const struct order *order)
{
	return peek((char *)lease[order->slot].ptr + order->size, &step_value);
}

static int do_copy_in(const struct order *order)
{
	int error = gpub_copy_on(client, (char *)lease[order->slot].ptr + order->size, &order->value,
				 sizeof order->value, work);

	return error ? error : gpub_stream_sync(work);
}

/* On that device, where there are so many. */
static int do_acquire_on(const struct order *order)
{
	int count, error = gpub_device_count(client, &count);

	if (!error)
		error = gpub_set_device(client, (int)order->value % count);
	if (!error)
		error = do_acquire(order);
	gpub_set_device(client, 0);
	return error;
}

static int do_late_write_behind(const struct order *order)
{
	return late_write((uint64_t *)((char *)lease[order->slot].ptr + order->size), order->value,
			  (uint64_t)order->timeout);
}

static uint64_t size_of(struct puppet *puppet, int slot)
{
	return ask(puppet, do_size, .slot = slot) ? 0 : puppet->last.value;
}

static uint64_t address_of(struct puppet *puppet, int slot)
{
	return ask(puppet, do_address, .slot = slot) ? 0 : puppet->last.value;
}

/* Whether that puppet reads the value there. */
static bool reads(struct puppet *puppet, int slot, uint64_t at, uint64_t value)
{
	return !ask(puppet, do_peek, .slot = slot, .size = at) && puppet->last.value == value;
}

static bool is_freed(const char *name)
{
	return !status_buffers(&broker, name, NULL);
}

/* ---- growing ---- */

static void test_grows(void)
{
	uint64_t at, generation;

	begin();
	POINT(!ask(&a, do_create, .name = "g", .size = 4 * MIB, .value = 64 * MIB) &&
		      !ask(&a, do_reserve, .name = "g") && a.last.value == 64 * MIB,
	      "a buffer of 4 MiB has a reserve of 64 MiB, which costs no memory");
	POINT(memory_objects(&broker) == 1, "it is one allocation");
	ask(&a, do_acquire, .name = "g");
	ask(&b, do_acquire, .name = "g");
	ask(&a, do_write, .value = 1);
	ask(&a, do_poke, .size = 4 * MIB - 8, .value = 2);
	ask(&b, do_stat, .name = "g");
	generation = b.last.value;
	at = address_of(&b, 0);
	POINT(!ask(&a, do_resize, .name = "g", .size = 20 * MIB), "it grows to 20 MiB while two processes hold it");
	POINT(size_of(&a, 0) == 4 * MIB && size_of(&b, 0) == 4 * MIB && reads(&b, 0, 0, 1),
	      "their leases stay as they are");
	POINT(!ask(&b, do_newer, .name = "g", .value = generation) && b.last.value > generation,
	      "it is a new generation: gpub_wait_newer sees it");
	POINT(!ask(&b, do_acquire, .name = "g", .slot = 1) && size_of(&b, 1) == 20 * MIB,
	      "the next acquire has 20 MiB");
	POINT(address_of(&b, 1) == at, "at the address of before");
	POINT(reads(&b, 1, 0, 1) && reads(&b, 1, 4 * MIB - 8, 2), "with what it had");
	POINT(reads(&b, 1, 4 * MIB, 0) && reads(&b, 1, 20 * MIB - 8, 0), "what is new is zero");
	POINT(!ask(&b, do_poke, .slot = 1, .size = 20 * MIB - 8, .value = 3) &&
		      !ask(&a, do_acquire, .name = "g", .slot = 1) && reads(&a, 1, 20 * MIB - 8, 3),
	      "and one memory for both");
	POINT(!ask(&a, do_copy_in, .slot = 1, .size = 10 * MIB, .value = 4) && reads(&b, 1, 10 * MIB, 4),
	      "copies reach it, too");
	/* CUDA ends the process */
	POINT(on_cuda() || ask(&a, do_copy_in, .slot = 1, .size = 20 * MIB, .value = 4) < 0,
	      "but not what is behind it");
	POINT(!ask(&a, do_return_on) && ask(&a, do_renew) == -ESTALE,
	      "a lease of the size before cannot be renewed: %s", a.last.text);
	POINT(!ask(&a, do_return_on, .slot = 1) && !ask(&a, do_renew, .slot = 1) && size_of(&a, 1) == 20 * MIB,
	      "one of the new size can");
	POINT(!ask(&b, do_resize, .name = "g", .size = 40 * MIB) && !ask(&a, do_acquire, .name = "g", .slot = 2) &&
		      !ask(&a, do_poke, .slot = 2, .size = 40 * MIB - 8, .value = 5) &&
		      !ask(&b, do_acquire, .name = "g", .slot = 2) && reads(&b, 2, 40 * MIB - 8, 5) &&
		      reads(&b, 2, 20 * MIB - 8, 3),
	      "it grows again");
	POINT(memory_objects(&broker) == 3, "by a chunk each time");
	ask(&b, do_return_on);
	ask(&a, do_return_on, .slot = 1);
	ask(&b, do_return_on, .slot = 1);
	ask(&a, do_return_on, .slot = 2);
	ask(&b, do_return_on, .slot = 2);
	ask(&a, do_unlink, .name = "g");
	POINT(!ask(&a, do_trim) && !ask(&b, do_trim) && SOON(is_freed("g")) && SOON(!memory_objects(&broker)),
	      "all of it is freed when it is unlinked");
	end();
}

/* Within what is backed, no memory is made; and what somebody wrote behind the end by mistake is not shown. */
static void test_grows_within(void)
{
	begin();
	ask(&a, do_create, .name = "g", .size = 1000, .value = 8 * MIB);
	ask(&a, do_acquire, .name = "g");
	POINT(!ask(&a, do_resize, .name = "g", .size = 3000) && memory_objects(&broker) == 1,
	      "a growth within a granule makes no memory");
	POINT(!ask(&a, do_acquire, .name = "g", .slot = 1) && size_of(&a, 1) == 3000 && reads(&a, 1, 2992, 0),
	      "it is zero there");
	POINT(!ask(&a, do_resize, .name = "g", .size = 8 * MIB) && !ask(&a, do_acquire, .name = "g", .slot = 2) &&
		      reads(&a, 2, 3000, 0) && reads(&a, 2, 8 * MIB - 8, 0) && memory_objects(&broker) == 2,
	      "one beyond makes one chunk");
	POINT(!ask(&b, do_acquire, .name = "g") && size_of(&b, 0) == 8 * MIB &&
		      !ask(&b, do_poke, .size = 8 * MIB - 8, .value = 9) && reads(&a, 2, 8 * MIB - 8, 9),
	      "who maps it for the first time gets all of it");
	POINT(!ask(&a, do_resize, .name = "g", .size = 8 * MIB), "to give it the size that it has does nothing");
	end();
}

/* Both views, both devices, and one address for all. */
static void test_views(unsigned flags, const char *what)
{
	uint64_t read_at, write_at;

	begin();
	ask(&a, do_create, .name = "g", .size = 4 * MIB, .value = 64 * MIB, .flags = flags);
	ask(&a, do_acquire, .name = "g");
	ask(&b, do_acquire, .name = "g", .rights = GPUB_READ);
	ask(&b, do_acquire, .name = "g", .slot = 1);
	read_at = address_of(&b, 0);
	write_at = address_of(&b, 1);
	POINT(!ask(&a, do_resize, .name = "g", .size = 10 * MIB) &&
		      !ask(&b, do_acquire, .name = "g", .slot = 2, .rights = GPUB_READ) &&
		      !ask(&b, do_acquire, .name = "g", .slot = 3) && size_of(&b, 2) == 10 * MIB &&
		      size_of(&b, 3) == 10 * MIB,
	      "%s: leases to read and to write see the growth", what);
	POINT(address_of(&b, 2) == read_at && address_of(&b, 3) == write_at, "%s: each at its address", what);
	POINT(!ask(&b, do_poke, .slot = 3, .size = 10 * MIB - 8, .value = 6) && reads(&b, 2, 10 * MIB - 8, 6),
	      "%s: of one memory", what);
	POINT(flags || ask(&b, do_copy_in, .slot = 2, .size = 6 * MIB, .value = 6) < 0,
	      "%s: which who reads cannot write", what);
	POINT(!ask(&a, do_acquire, .name = "g", .slot = 1, .rights = GPUB_READ) && reads(&a, 1, 10 * MIB - 8, 6),
	      "%s: a view that is made after the growth has all of it", what);
	POINT(!ask(&a, do_acquire_on, .name = "g", .slot = 2, .value = 1) && size_of(&a, 2) == 10 * MIB,
	      "%s: another device maps it", what);
	POINT(!ask(&a, do_resize, .name = "g", .size = 30 * MIB) &&
		      !ask(&a, do_acquire_on, .name = "g", .slot = 3, .value = 1) && size_of(&a, 3) == 30 * MIB &&
		      !ask(&a, do_acquire, .name = "g", .slot = 4) && size_of(&a, 4) == 30 * MIB &&
		      reads(&a, 4, 10 * MIB - 8, 6) && !ask(&a, do_poke, .slot = 4, .size = 30 * MIB - 8, .value = 8) &&
		      !ask(&b, do_acquire, .name = "g", .slot = 4, .rights = GPUB_READ) &&
		      reads(&b, 4, 30 * MIB - 8, 8),
	      "%s: both see the next growth", what);
	end();
}

/* The consumer's kernel uses what it has, and its next lease has more. */
static void test_beside_a_kernel(void)
{
	begin();
	ask(&a, do_create, .name = "g", .size = 4 * MIB, .value = 64 * MIB);
	ask(&b, do_acquire, .name = "g");
	ask(&b, do_late_write_behind, .size = 8, .value = 7, .timeout = 1000);
	POINT(!ask(&a, do_resize, .name = "g", .size = 32 * MIB) && !ask(&b, do_acquire, .name = "g", .slot = 1) &&
		      size_of(&b, 1) == 32 * MIB && reads(&b, 1, 32 * MIB - 8, 0),
	      "a buffer grows under a kernel that uses it");
	POINT(!ask(&b, do_sync) && reads(&b, 1, 8, 7), "which ends in order");
	ask(&b, do_return_on);
	ask(&b, do_return_on, .slot = 1);
	ask(&a, do_unlink, .name = "g");
	POINT(SOON(is_freed("g")) && SOON(!memory_objects(&broker)), "and is freed without a call of its holder's");
	end();
}

/* It is the buffer's, whatever its size is. */
static void test_timeline(void)
{
	begin();
	ask(&a, do_create, .name = "g", .size = 4 * MIB, .value = 64 * MIB, .flags = GPUB_TIMELINE);
	ask(&a, do_acquire, .name = "g");
	ask(&b, do_acquire, .name = "g", .rights = GPUB_READ);
	ask(&a, do_signal, .value = 1);
	POINT(!ask(&b, do_wait, .value = 1) && !ask(&b, do_sync) && !ask(&a, do_resize, .name = "g", .size = 8 * MIB),
	      "a buffer with a timeline grows");
	POINT(!ask(&a, do_signal, .value = 2) && !ask(&b, do_wait, .value = 2) && !ask(&b, do_sync),
	      "leases of before signal it and wait for it");
	POINT(!ask(&a, do_acquire, .name = "g", .slot = 1) &&
		      !ask(&b, do_acquire, .name = "g", .slot = 1, .rights = GPUB_READ) &&
		      !ask(&a, do_signal, .slot = 1, .value = 3) && !ask(&b, do_wait, .slot = 1, .value = 3) &&
		      !ask(&b, do_sync) && !ask(&b, do_timeline, .slot = 1) && b.last.value == 3,
	      "and so do leases of the new size");
	end();
}

/* ---- shrinking ---- */

static void test_shrinks(void)
{
	begin();
	ask(&a, do_create, .name = "g", .size = 4 * MIB, .value = 64 * MIB);
	ask(&a, do_resize, .name = "g", .size = 16 * MIB);
	ask(&b, do_acquire, .name = "g");
	ask(&b, do_write, .value = 1);
	ask(&b, do_poke, .size = 2 * MIB, .value = 2);
	ask(&b, do_poke, .size = 8 * MIB, .value = 3);
	POINT(ask(&a, do_resize, .name = "g", .size = 1 * MIB) == -EBUSY && strstr(a.last.text, "gpub_trim"),
	      "it does not shrink while a process maps it: %s", a.last.text);
	POINT(ask(&b, do_resize, .name = "g", .size = 1 * MIB) == -EBUSY &&
		      strstr(b.last.text, "'g' cannot shrink while this process holds a lease of it: return that"),
	      "nor under a lease of the caller's own, which a trim does not end: %s", b.last.text);
	POINT(reads(&b, 0, 8 * MIB, 3), "and nothing is lost");
	ask(&b, do_return);
	POINT(ask(&a, do_resize, .name = "g", .size = 1 * MIB) == -EBUSY, "a mapping without a lease is enough");
	POINT(!ask(&b, do_resize, .name = "g", .size = 1 * MIB), "who has that itself closes it first");
	POINT(SOON(memory_objects(&broker) == 1), "the chunk that is not needed goes to the device");
	POINT(!ask(&b, do_acquire, .name = "g") && size_of(&b, 0) == 1 * MIB && reads(&b, 0, 0, 1),
	      "what is left is as it was");
	POINT(!ask(&b, do_resize, .name = "g", .size = 16 * MIB) && !ask(&b, do_acquire, .name = "g", .slot = 1) &&
		      reads(&b, 1, 0, 1) && reads(&b, 1, 2 * MIB, 0) && reads(&b, 1, 8 * MIB, 0),
	      "what was cut off is zero when it grows again");
	end();
}

/* ---- refusals ---- */

/* A scalar, or where value is not 0 an array of so many rows of 4 KiB. */
static int do_layout(const struct order *order)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	char text[32];
	int error;

	snprintf(text, sizeof text, order->value ? "f32[%llu,1024]" : "f32x4[]", (unsigned long long)order->value);
	error = gpub_layout_parse(text, &spec.layout);
	spec.reserve = 8 * MIB;
	return error ? error : gpub_create(client, order->name, &spec);
}

/* Of the lease, as its layout says. */
static int do_rows(const struct order *order)
{
	gpub_layout layout;
	int error = gpub_lease_layout(&lease[order->slot], &layout);

	step_value = layout.shape[0];
	return error;
}

static void test_arrays(void)
{
	begin();
	ask(&a, do_layout, .name = "array", .value = 10);
	ask(&b, do_acquire, .name = "array");
	POINT(!ask(&a, do_resize, .name = "array", .size = 2 * MIB) &&
		      !ask(&b, do_acquire, .name = "array", .slot = 1) && !ask(&b, do_rows, .slot = 1) &&
		      b.last.value == 512,
	      "an array has as many rows as fit");
	POINT(!ask(&b, do_rows) && b.last.value == 10, "and as many as it had in a lease of before");
	ask(&b, do_return);
	ask(&b, do_return, .slot = 1);
	POINT(!ask(&b, do_resize, .name = "array", .size = 3 * 4096 + 4095) && !ask(&b, do_acquire, .name = "array") &&
		      !ask(&b, do_rows) && b.last.value == 3,
	      "fewer when it shrinks");
	POINT(!ask(&a, do_layout, .name = "one") && ask(&a, do_resize, .name = "one", .size = 15) == -EINVAL,
	      "one element stays whole: %s", a.last.text);
	end();
}

static int do_grow_often(const struct order *order)
{
	int error = 0;

	for (step_value = 0; !error && step_value < order->value; step_value++)
		error = gpub_resize(client, order->name, (step_value + 3) * 2 * MIB, 0);
	return error;
}

static void test_refusals(void)
{
	begin();
	ask(&a, do_create, .name = "fixed", .size = 4 * MIB);
	POINT(ask(&a, do_resize, .name = "fixed", .size = 8 * MIB) == -EINVAL && strstr(a.last.text, "reserve"),
	      "without a reserve: %s", a.last.text);
	POINT(ask(&a, do_create, .name = "g", .size = 4 * MIB, .value = MIB) == -EINVAL, "a reserve below the size: %s",
	      a.last.text);
	POINT(ask(&a, do_create, .name = "g", .size = 4 * MIB, .value = 1ull << 50) == -EINVAL, "beyond the device: %s",
	      a.last.text);
	POINT(ask(&a, do_create, .name = "g", .size = 4 * MIB, .value = 64 * MIB + 1, .flags = GPUB_SAME_ADDRESS) ==
		      -EINVAL,
	      "far beyond the size at one address: %s", a.last.text);
	ask(&a, do_create, .name = "g", .size = 4 * MIB, .value = 128 * MIB);
	POINT(ask(&a, do_resize, .name = "g", .size = 129 * MIB) == -ENOSPC, "beyond the reserve: %s", a.last.text);
	POINT(ask(&a, do_resize, .name = "g", .size = 0) == -EINVAL, "to nothing: %s", a.last.text);
	POINT(ask(&a, do_resize, .name = "none", .size = 8 * MIB) == -ENOENT, "of a name that nobody has");
	POINT(ask(&a, do_resize, .name = "g", .size = 8 * MIB, .timeout = -2) == -EINVAL, "with a timeout below -1");
	POINT(!ask(&a, do_grow_often, .name = "g", .value = 31) && memory_objects(&broker) == 33,
	      "31 growths are possible");
	POINT(ask(&a, do_resize, .name = "g", .size = 128 * MIB) == -ENOSPC, "the next is refused: %s", a.last.text);
	POINT(!ask(&b, do_acquire, .name = "g") && size_of(&b, 0) == 66 * MIB && reads(&b, 0, 66 * MIB - 8, 0),
	      "who maps it then gets all chunks at once");
	ask(&a, do_layout, .name = "array", .value = 1);
	POINT(!ask(&a, do_resize, .name = "array", .size = 8192) && !ask(&a, do_seal, .name = "array") &&
		      ask(&a, do_resize, .name = "array", .size = 16384) == -EROFS,
	      "of a sealed buffer: %s", a.last.text);
	ask(&b, do_return);
	ask(&a, do_unlink, .name = "g");
	ask(&a, do_unlink, .name = "fixed");
	ask(&a, do_unlink, .name = "array");
	POINT(!ask(&b, do_trim) && SOON(!memory_objects(&broker)), "nothing stays");
	end();
}

/* The device is full: the growth waits, and nothing is charged for one that failed. */
static void test_shortage(void)
{
	setenv("GPUB_HOST_MEMORY", "64M", 1);
	begin();
	ask(&a, do_create, .name = "g", .size = 4 * MIB, .value = 64 * MIB);
	ask(&a, do_create, .name = "other", .size = 40 * MIB);
	POINT(ask(&a, do_resize, .name = "g", .size = 40 * MIB) == -ENOMEM, "the device is full: %s", a.last.text);
	POINT(!ask(&a, do_acquire, .name = "g") && size_of(&a, 0) == 4 * MIB, "the buffer is as it was");
	tell(&b, do_resize, .name = "g", .size = 40 * MIB, .timeout = 20000);
	POINT(SOON(status_number(&broker, "waiting") == 1) && !puppet_answered(&b), "with a timeout it waits");
	POINT(ask(&a, do_resize, .name = "g", .size = 8 * MIB) == -EBUSY, "one growth at a time: %s", a.last.text);
	ask(&a, do_unlink, .name = "other");
	POINT(!receive(&b) && !ask(&b, do_acquire, .name = "g") && size_of(&b, 0) == 40 * MIB &&
		      !ask(&b, do_poke, .size = 40 * MIB - 8, .value = 3),
	      "until there is memory");
	end();
	unsetenv("GPUB_HOST_MEMORY");
}

/* The name goes while the growth waits for memory. */
static void test_unlinked_meanwhile(void)
{
	setenv("GPUB_HOST_MEMORY", "64M", 1);
	begin();
	ask(&a, do_create, .name = "g", .size = 4 * MIB, .value = 64 * MIB);
	ask(&a, do_create, .name = "other", .size = 40 * MIB);
	tell(&b, do_resize, .name = "g", .size = 40 * MIB, .timeout = -1);
	SOON(status_number(&broker, "waiting") == 1);
	POINT(!ask(&a, do_unlink, .name = "g"), "a buffer that is to grow is unlinked");
	POINT(SOON(puppet_answered(&b)) && receive(&b) == -ENOENT, "the growth does not wait on, and is refused: %s",
	      b.last.text);
	POINT(SOON(is_freed("g")) && SOON(memory_objects(&broker) == 1), "and all of it is freed");
	POINT(!ask(&a, do_create, .name = "small", .size = 4 * MIB), "nobody waits behind it");
	ask(&a, do_unlink, .name = "small");
	ask(&a, do_create, .name = "g", .size = 4 * MIB, .value = 64 * MIB);
	tell(&b, do_resize, .name = "g", .size = 40 * MIB, .timeout = -1);
	SOON(status_number(&broker, "waiting") == 1);
	ask(&a, do_seal, .name = "g");
	POINT(SOON(puppet_answered(&b)) && receive(&b) == -EROFS && SOON(memory_objects(&broker) == 2),
	      "one that is sealed while it is to grow keeps no memory: %s", b.last.text);
	ask(&a, do_unlink, .name = "g");
	ask(&a, do_create, .name = "g", .size = 4 * MIB, .value = 64 * MIB);
	ask(&a, do_create, .name = "next", .size = 4 * MIB, .value = 64 * MIB);
	tell(&b, do_resize, .name = "g", .size = 40 * MIB, .timeout = -1);
	SOON(status_number(&broker, "waiting") == 1);
	POINT(!ask(&a, do_rename, .name = "next g", .flags = GPUB_REPLACE) && SOON(puppet_answered(&b)) &&
		      receive(&b) == -ENOENT,
	      "so does one of a buffer that a rename replaces: %s", b.last.text);
	tell(&b, do_resize, .name = "g", .size = 40 * MIB, .timeout = -1);
	SOON(status_number(&broker, "waiting") == 1);
	puppet_kill(&b);
	POINT(SOON(!status_number(&broker, "waiting")) && !ask(&a, do_resize, .name = "g", .size = 8 * MIB),
	      "a growth ends with the process that asked for it");
	puppet_start(&b, &broker);
	ask(&b, do_stream);
	end();
	unsetenv("GPUB_HOST_MEMORY");
}

int main(void)
{
	harness_begin("resize", 120);
	/* memory_objects() counts those; a buffer with a reserve is so exported anyway */
	setenv("GPUBROKER_EXPORT", "vmm", 1);
	test_grows();
	test_grows_within();
	test_views(0, "any address");
	test_views(GPUB_SAME_ADDRESS, "one address");
	test_beside_a_kernel();
	test_timeline();
	test_shrinks();
	test_arrays();
	test_refusals();
	if (!on_cuda()) {
		test_shortage();
		test_unlinked_meanwhile();
	}
	return harness_end();
}

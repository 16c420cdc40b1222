/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slabs.c - small buffers side by side in one memory object, opened once, each with bytes of its own; and memory that
 * serves the next buffer of its kind without an allocation or an open, once nobody's device work can touch it.
 *
 * What must not have happened is looked for behind something that the same thread does later: see look_at_all().
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device/host.h"
#include "harness.h"

#define SMALL 200         /* bytes: several fit into the smallest object of either device */
#define LARGE (4u << 20)  /* alone in its memory on either */
#define POOL  "32M"

static struct broker_process broker;
static struct puppet a, b;

/* ---- steps ---- */

/* Of its own: memory is looked at while the other stream is parked. */
static void *copies;
static unsigned char bytes[LARGE];
static char *ticket; /* shared by all processes */

static int do_ready(const struct order *order)
{
	int error = do_stream(order);

	return error ? error : gpub_stream_create(client, GPUB_CURRENT, &copies);
}

/* order.value: the mode. */
static int do_make(const struct order *order)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = order->size ? order->size : SMALL;
	spec.flags = order->flags;
	spec.mode = order->value ? (uint32_t)order->value : 0600;
	spec.timeout_ms = order->timeout;
	return gpub_create(client, order->name, &spec);
}

static int do_place(const struct order *order)
{
	step_value = (uintptr_t)lease[order->slot].ptr;
	return 0;
}

static int do_size(const struct order *order)
{
	step_value = lease[order->slot].size;
	return 0;
}

static int copy(void *to, const void *from, uint64_t size)
{
	int error = gpub_copy_on(client, to, from, size, copies);

	return error ? error : gpub_stream_sync(copies);
}

/* Every byte of the lease becomes order.value. */
static int do_fill(const struct order *order)
{
	const gpub_lease *held = &lease[order->slot];

	memset(bytes, (int)order->value, held->size);
	return copy(held->ptr, bytes, held->size);
}

/* 0: every byte of the lease is order.value. */
static int do_look(const struct order *order)
{
	const gpub_lease *held = &lease[order->slot];
	int error;

	memset(bytes, (int)~order->value, held->size);
	error = copy(bytes, held->ptr, held->size);
	for (uint64_t i = 0; i < held->size && !error; i++)
		error = bytes[i] == (unsigned char)order->value ? 0 : -EILSEQ;
	return error;
}

/* The next order.value opens of this process fail; on the host device. */
static int do_fail_opens(const struct order *order)
{
	host_fail_next(HOST_OPEN, (int)order->value, EMFILE);
	return 0;
}

static int do_chmod(const struct order *order)
{
	return gpub_chmod(client, order->name, (uint32_t)order->value);
}

static int do_issue(const struct order *order)
{
	gpub_ticket_terms terms = GPUB_TICKET_TERMS_INIT;

	terms.user = (uint32_t)order->value;
	return gpub_ticket_issue(client, order->name, GPUB_READ | GPUB_WRITE, &terms, ticket);
}

static int do_redeem(const struct order *order)
{
	return gpub_redeem(client, ticket, &lease[order->slot]);
}

/* ---- the world ---- */

static void begin(const char *pool)
{
	broker_pool = pool;
	broker_start(&broker, "host");
	puppet_start(&a, &broker);
	puppet_start(&b, &broker);
	if (ask(&a, do_ready) || ask(&b, do_ready))
		bail_out("no streams");
}

static void end(void)
{
	puppet_end(&a);
	if (b.pid)
		puppet_end(&b);
	broker_end(&broker);
}

static bool gone(const char *name)
{
	return !status_buffers(&broker, name, NULL);
}

/* A counter, with all that was answered so far in it. */
static int64_t counter(const char *key)
{
	status_stable(&broker, &a);
	return status_counter(&broker, key);
}

static int64_t objects(void)
{
	status_stable(&broker, &a);
	return memory_objects(&broker);
}

static uint64_t place(struct puppet *puppet, int slot)
{
	ask(puppet, do_place, .slot = slot);
	return puppet->last.value;
}

/* Both have had it, and their device work is done. */
static void use_by_both(const char *name, int slot)
{
	struct order acquire = { .run = do_acquire, .slot = slot };

	snprintf(acquire.name, sizeof acquire.name, "%s", name);
	puppet_tell(&a, acquire);
	puppet_tell(&b, acquire);
	if (receive(&a) || receive(&b))
		bail_out("'%s' cannot be acquired: %s %s", name, a.last.text, b.last.text);
	ask(&b, do_fill, .slot = slot, .value = 0xEE);
}

static void return_behind_work(struct puppet *puppet, int slot)
{
	if (ask(puppet, do_return_on, .slot = slot) || ask(puppet, do_sync))
		bail_out("no return: %s", puppet->last.text);
}

/* Unlinks it, and waits until its range may serve another. */
static bool ended_and_clean(const char *name)
{
	int64_t cleaned = counter("ranges_cleaned");
	struct order order = { .run = do_unlink };

	snprintf(order.name, sizeof order.name, "%s", name);
	puppet_tell(&a, order);
	return !receive(&a) && SOON(gone(name) && status_counter(&broker, "ranges_cleaned") == cleaned + 1);
}

/*
 * When this is back the puppet's service thread has looked at each unlinked buffer of which it knows: two more of them,
 * made before by prepare_look(), go one after the other, and the second only in a pass that begins behind the first's.
 */
static const char *const scans[] = { "look/1", "look/2" };

static void prepare_look(struct puppet *puppet)
{
	for (int i = 0; i < 2; i++) {
		struct order order = { .run = do_make, .slot = SLOTS - 1 };

		snprintf(order.name, sizeof order.name, "%s", scans[i]);
		puppet_tell(puppet, order);
		receive(puppet);
		order.run = do_acquire;
		puppet_tell(puppet, order);
		if (receive(puppet))
			bail_out("%s: %s", scans[i], puppet->last.text);
		return_behind_work(puppet, SLOTS - 1);
	}
}

static void look_at_all(struct puppet *puppet)
{
	for (int i = 0; i < 2; i++) {
		struct order order = { .run = do_unlink };

		snprintf(order.name, sizeof order.name, "%s", scans[i]);
		puppet_tell(puppet, order);
		if (receive(puppet) || !SOON(gone(scans[i])))
			bail_out("'%s' does not go", scans[i]);
	}
	status_stable(&broker, puppet);
}

/* A's stream waits for the gate from now on, which is open when b says so. */
static void park(void)
{
	ask(&a, do_make, .name = "gate", .flags = GPUB_TIMELINE);
	ask(&a, do_acquire, .name = "gate", .slot = 6);
	ask(&b, do_acquire, .name = "gate", .slot = 6);
	if (ask(&a, do_wait, .slot = 6, .value = 1))
		bail_out("no gate: %s", a.last.text);
}

static void unpark(void)
{
	ask(&b, do_signal, .slot = 6, .value = 1);
}

/* ---- eight in one ---- */

static int with(struct puppet *puppet, step *run, int number, uint64_t value)
{
	struct order order = { .run = run, .slot = number, .value = value };

	snprintf(order.name, sizeof order.name, "s%d", number);
	puppet_tell(puppet, order);
	return receive(puppet);
}

static bool all(struct puppet *puppet, step *run)
{
	bool good = true;

	for (int i = 0; i < SLOTS; i++)
		good &= !with(puppet, run, i, 0);
	return good;
}

/* With another value each. */
static bool all_valued(struct puppet *puppet, step *run)
{
	bool good = true;

	for (int i = 0; i < SLOTS; i++)
		good &= !with(puppet, run, i, (uint64_t)(0x10 + i));
	return good;
}

static bool places_are_apart(struct puppet *puppet)
{
	uint64_t at[SLOTS];
	bool apart = true;

	for (int i = 0; i < SLOTS; i++) {
		at[i] = place(puppet, i);
		apart &= at[i] % 256 == 0 && !ask(puppet, do_size, .slot = i) && puppet->last.value == SMALL;
		for (int j = 0; j < i; j++)
			apart &= at[i] > at[j] ? at[i] - at[j] >= SMALL : at[j] - at[i] >= SMALL;
	}
	return apart;
}

static void test_sharing(void)
{
	int64_t opened;

	begin("0");
	POINT(all(&a, do_make) && objects() == 1, "%d small buffers of one kind are one memory object", SLOTS);
	opened = counter("mappings_opened");
	POINT(!with(&a, do_acquire, 0, 0) && (on_cuda() || !ask(&a, do_fail_opens, .value = 1)) &&
		      !with(&a, do_return, 0, 0) && all(&a, do_acquire),
	      "the first is opened, the others with it");
	POINT(counter("mappings_opened") == opened + 1, "they are one mapping");
	if (!on_cuda())
		ask(&a, do_fail_opens);
	POINT(places_are_apart(&a),
	      "they do not overlap, are aligned to 256 bytes, and have the size that they were made with");
	POINT(all(&b, do_acquire) && places_are_apart(&b) && counter("mappings_opened") == opened + 2,
	      "a second process opens them once, too");
	POINT(all_valued(&a, do_fill) && all_valued(&b, do_look) && !with(&b, do_fill, 3, 0x77) &&
		      !with(&a, do_look, 3, 0x77) && !with(&a, do_look, 2, 0x12) && !with(&a, do_look, 4, 0x14),
	      "what is written to one is in that one, for both");
	with(&a, do_return, 3, 0);
	POINT(!with(&a, do_unlink, 3, 0) && with(&a, do_stat, 3, 0) == -ENOENT && !with(&b, do_look, 3, 0x77) &&
		      !with(&a, do_return, 2, 0) && !with(&a, do_acquire, 2, 0) && !with(&a, do_look, 2, 0x12),
	      "one that is unlinked stays with its holder, and the others are as they were");
	POINT(objects() == 1, "nothing is freed as long as others are in there");
	all(&a, do_unlink);
	POINT(all(&b, do_return) && !ask(&b, do_trim) && status_holders(&broker, "s0", a.pid) == 1,
	      "invariant 2: without names it is kept for a holder of one of them");
	all(&a, do_return);
	POINT(!ask(&a, do_trim) && SOON(!memory_objects(&broker) && gone(NULL)), "when all is closed it is freed");
	end();
}

static void test_kinds(void)
{
	begin("0");
	ask(&a, do_make, .name = "x");
	POINT(!ask(&a, do_make, .name = "same") && objects() == 1, "what is of one kind goes together");
	POINT(!ask(&b, do_make, .name = "b") && objects() == 1,
	      "whichever of its owner's processes makes it");
	POINT(!ask(&a, do_make, .name = "mode", .value = 0640) && objects() == 2, "another mode is another kind");
	POINT(!ask(&a, do_make, .name = "size", .size = 1000) && objects() == 3, "another size class is, too");
	POINT(!ask(&a, do_make, .name = "alone", .flags = GPUB_DEDICATED) && objects() == 4 &&
		      !ask(&a, do_make, .name = "alone2", .flags = GPUB_DEDICATED) && objects() == 5,
	      "GPUB_DEDICATED shares with nothing, another such least of all");
	POINT(!ask(&a, do_make, .name = "large", .size = LARGE) && objects() == 6, "so does what is large");
	POINT(!ask(&a, do_make, .name = "again", .flags = GPUB_EPHEMERAL) && objects() == 6,
	      "flags else make no difference");
	end();
}

static void test_chmod(void)
{
	begin("0");
	ask(&a, do_make, .name = "x");
	ask(&a, do_make, .name = "y");
	POINT(ask(&a, do_chmod, .name = "x", .value = 0640) == -EBUSY && strstr(a.last.text, "GPUB_DEDICATED"),
	      "a buffer that shares its memory keeps its mode: EBUSY says how to fix it");
	POINT(!ask(&a, do_chmod, .name = "x", .value = 0600), "the mode that it has it can be given");
	ask(&a, do_make, .name = "alone", .flags = GPUB_DEDICATED);
	POINT(!ask(&a, do_chmod, .name = "alone", .value = 0640),
	      "one that was made with GPUB_DEDICATED can be changed");
	ask(&b, do_acquire, .name = "y");
	ask(&a, do_unlink, .name = "y");
	POINT(ask(&a, do_chmod, .name = "x", .value = 0640) == -EBUSY,
	      "the other's bytes are in the way also without its name");
	return_behind_work(&b, 0);
	POINT(SOON(!ask(&a, do_chmod, .name = "x", .value = 0640)), "once they are gone the last one can be changed");
	POINT(!ask(&a, do_make, .name = "y") && objects() == 3 && !ask(&a, do_make, .name = "z", .value = 0640) &&
		      objects() == 4,
	      "and nothing joins it then, of its old kind or its new one");
	end();
}

static void test_tickets(void)
{
	int64_t opened;

	begin("0");
	ask(&a, do_make, .name = "x");
	ask(&a, do_make, .name = "y");
	ask(&a, do_acquire, .name = "x");
	ask(&a, do_fill, .value = 5);
	ask(&b, do_acquire, .name = "y", .slot = 1);
	POINT(ask(&a, do_issue, .name = "x", .value = 4001) == -EBUSY && strstr(a.last.text, "GPUB_DEDICATED"),
	      "there is no ticket for another user to memory that is shared");
	opened = counter("mappings_opened");
	POINT(!ask(&a, do_issue, .name = "x", .value = geteuid()) && !ask(&b, do_redeem) &&
		      !ask(&b, do_look, .value = 5) && counter("mappings_opened") == opened + 1,
	      "one for its owner opens it, with a mapping of its own");
	POINT(ask(&b, do_redeem) == -EKEYREJECTED, "once");
	ask(&b, do_return);
	POINT(!ask(&b, do_trim) && !ask(&b, do_fill, .slot = 1, .value = 9) && !ask(&a, do_look, .value = 5),
	      "that is closed on its own: the other mapping is still held");
	POINT(!ask(&a, do_issue, .name = "x", .value = GPUB_ANY_USER) && !ask(&b, do_redeem) &&
		      !ask(&b, do_look, .value = 5),
	      "one for anybody opens it for its owner's processes");
	end();
}

static void test_trim(void)
{
	begin("0");
	all(&a, do_make);
	all(&a, do_acquire);
	all_valued(&a, do_fill);
	for (int i = 0; i < SLOTS; i++)
		if (i != 4)
			with(&a, do_return, i, 0);
	POINT(!ask(&a, do_trim) && counter("mappings_closed") == 0 && !with(&a, do_look, 4, 0x14),
	      "a trim leaves the memory mapped of which one buffer is held");
	POINT(all_valued(&b, do_acquire) && all_valued(&b, do_look), "the others are as they were");
	with(&a, do_return, 4, 0);
	POINT(!ask(&a, do_trim) && SOON(!status_holders(&broker, NULL, a.pid)),
	      "when that is returned, too, it is closed");
	POINT(all(&a, do_acquire) && all_valued(&a, do_look), "and opened again");
	end();
}

/* ---- memory that serves the next ---- */

static void test_recycling(uint64_t size, const char *what)
{
	uint64_t at_a, at_b;
	int64_t opened;

	begin(POOL);
	ask(&a, do_make, .name = "other", .size = size);
	ask(&a, do_make, .name = "x", .size = size);
	use_by_both("x", 0);
	at_a = place(&a, 0);
	at_b = place(&b, 0);
	return_behind_work(&a, 0);
	return_behind_work(&b, 0);
	opened = counter("mappings_opened");
	POINT(ended_and_clean("x"), "%s: what was returned in stream order is let go of without a call", what);
	if (!on_cuda())
		ask(&a, do_fail_opens, .value = 9);
	POINT(!ask(&b, do_make, .name = "y", .size = size) && !ask(&a, do_acquire, .name = "y") &&
		      !ask(&b, do_acquire, .name = "y") && place(&a, 0) == at_a && place(&b, 0) == at_b,
	      "%s: the next one of its kind is where it was, for both", what);
	POINT(counter("mappings_opened") == opened, "%s: without an open", what);
	POINT(!ask(&a, do_look) && !ask(&b, do_look), "invariant 6: %s: and it is zeros", what);
	ask(&a, do_fill, .value = 3);
	POINT(!ask(&b, do_look, .value = 3), "%s: for both the same memory", what);
	if (!on_cuda())
		ask(&a, do_fail_opens);
	POINT(!ask(&b, do_make, .name = "mode", .size = size, .value = 0640) &&
		      !ask(&a, do_acquire, .name = "mode", .slot = 1) && counter("mappings_opened") == opened + 1,
	      "%s: another kind gets other memory", what);
	end();
}

/* Whoever has been there has written to it, and knows where it is: only what the same may have gets it next. */
static void test_pool(void)
{
	begin(POOL);
	ask(&a, do_make, .name = "x", .size = LARGE);
	use_by_both("x", 0);
	return_behind_work(&a, 0);
	return_behind_work(&b, 0);
	POINT(ended_and_clean("x") && objects() == 1, "without a name it is kept, as it is mapped");
	ask(&a, do_trim);
	ask(&b, do_trim);
	POINT(SOON(status_counter(&broker, "mappings_closed") == 2) &&
		      SOON(status_counter(&broker, "allocations_freed") == 1) &&
		      (on_cuda() || memory_objects(&broker) == 1),
	      "closed by all it goes into the pool");
	POINT(!ask(&a, do_make, .name = "y", .size = LARGE) && (on_cuda() || objects() == 1),
	      "out of which the next of its kind comes");
	POINT(!ask(&a, do_acquire, .name = "y") && !ask(&a, do_look), "invariant 6: zeroed");
	end();
}

/* Its mode and its owner may have been others: it has nobody before it, and nobody behind it. */
static void test_alone(void)
{
	int64_t opened;

	begin(POOL);
	ask(&a, do_make, .name = "x", .size = LARGE);
	ask(&a, do_make, .name = "alone", .size = LARGE, .flags = GPUB_DEDICATED);
	ask(&a, do_acquire, .name = "x");
	ask(&a, do_acquire, .name = "alone", .slot = 1);
	return_behind_work(&a, 0);
	return_behind_work(&a, 1);
	prepare_look(&a);
	opened = counter("mappings_opened");
	POINT(ended_and_clean("x") && !ask(&a, do_make, .name = "y", .size = LARGE, .flags = GPUB_DEDICATED) &&
		      !ask(&a, do_acquire, .name = "y") && counter("mappings_opened") == opened + 1,
	      "GPUB_DEDICATED takes no memory that is mapped");
	ask(&a, do_unlink, .name = "alone");
	look_at_all(&a);
	POINT(tested_export()->close_waits ? status_holders(&broker, "alone", a.pid) == 1 : SOON(gone("alone")),
	      "nor leaves any: it is wanted back");
	POINT(!ask(&a, do_trim) && SOON(gone("alone")), "and goes with the mapping");
	end();
}

static void test_no_pool(void)
{
	begin("0");
	ask(&b, do_flags, .flags = GPUB_BACKGROUND_CLOSE);
	ask(&a, do_make, .name = "x", .size = LARGE);
	use_by_both("x", 0);
	return_behind_work(&a, 0);
	return_behind_work(&b, 0);
	ask(&a, do_unlink, .name = "x");
	POINT(SOON(!status_holders(&broker, "x", b.pid) &&
		   (!tested_export()->close_waits || status_holders(&broker, "x", a.pid) == 1)),
	      "where nothing is kept the broker wants it back, and a closer gives it");
	ask(&a, do_trim);
	POINT(SOON(gone("x") && !memory_objects(&broker)), "as a trim does");
	end();
}

/* Memory that is kept goes to a session that needs it more. */
static void test_short(void)
{
	if (on_cuda()) {
		point_skip("idle memory is given back when the device is full: a device with 8 MiB");
		return;
	}
	setenv("GPUB_HOST_MEMORY", "8M", 1);
	begin(POOL);
	unsetenv("GPUB_HOST_MEMORY");
	ask(&b, do_flags, .flags = GPUB_BACKGROUND_CLOSE);
	ask(&a, do_make, .name = "x", .size = LARGE);
	use_by_both("x", 0);
	return_behind_work(&a, 0);
	return_behind_work(&b, 0);
	ended_and_clean("x");
	POINT(!ask(&a, do_make, .name = "most", .size = LARGE / 4 * 7, .timeout = -1),
	      "idle memory is given back for a create that needs it: the own at once, another's by its closer");
	end();
}

/* ---- what must not be reused ---- */

/* Unfinished work, and an unordered return: nothing says when it is done but the device. */
static void test_unordered_return(void)
{
	begin(POOL);
	ask(&a, do_make, .name = "x");
	use_by_both("x", 0);
	return_behind_work(&b, 0);
	prepare_look(&a);
	park();
	ask(&a, do_late_write, .value = 7);
	ask(&a, do_return);
	ask(&b, do_unlink, .name = "x");
	look_at_all(&a);
	POINT(status_holders(&broker, "x", a.pid) == 1 && status_holders(&broker, "x", b.pid) == 0,
	      "an unordered return says nothing of the device: the memory is not let go of");
	ask(&b, do_make, .name = "y");
	ask(&b, do_acquire, .name = "y");
	tell(&a, do_trim);
	status_stable(&broker, &b);
	POINT(!puppet_answered(&a) && status_holders(&broker, "x", a.pid) == 1,
	      "a trim asks the device, and waits for it");
	unpark();
	POINT(!receive(&a) && SOON(gone("x")), "then it is");
	POINT(!ask(&b, do_look), "invariant 6: what was made meanwhile is zeros");
	end();
}

static void test_unordered_return_closer(void)
{
	uint64_t at;

	begin(POOL);
	ask(&a, do_make, .name = "x");
	ask(&a, do_make, .name = "held");
	ask(&a, do_acquire, .name = "held", .slot = 1);
	ask(&a, do_acquire, .name = "x");
	ask(&a, do_fill, .value = 1);
	at = place(&a, 0);
	ask(&a, do_return);
	ask(&a, do_flags, .flags = GPUB_BACKGROUND_CLOSE);
	POINT(ended_and_clean("x"), "the closer asks the device, and lets go of what was returned unordered");
	POINT(counter("mappings_closed") == 0, "and leaves the memory mapped for the one that is held");
	POINT(!ask(&b, do_make, .name = "y") && !ask(&a, do_acquire, .name = "y") && place(&a, 0) == at &&
		      !ask(&a, do_look),
	      "invariant 6: the next one is there, of zeros");
	end();
}

static void test_return_in_flight(void)
{
	uint64_t at;

	begin(POOL);
	ask(&a, do_make, .name = "x");
	use_by_both("x", 0);
	return_behind_work(&b, 0);
	at = place(&a, 0);
	prepare_look(&a);
	park();
	ask(&a, do_late_write, .value = 7);
	ask(&a, do_return_on);
	ask(&b, do_unlink, .name = "x");
	look_at_all(&a);
	POINT(status_holders(&broker, "x", a.pid) == 1, "a return that has not landed keeps the memory");
	POINT(!ask(&b, do_make, .name = "y") && !ask(&a, do_acquire, .name = "y") && place(&a, 0) != at,
	      "the next one is elsewhere");
	unpark();
	POINT(SOON(gone("x")), "when it lands the memory is let go of, without a call");
	POINT(!ask(&a, do_look), "invariant 6: the other was not touched");
	end();
}

static void test_held_elsewhere(bool dies)
{
	uint64_t at;

	begin(POOL);
	ask(&a, do_make, .name = "x");
	use_by_both("x", 0);
	at = place(&a, 0);
	return_behind_work(&a, 0);
	ask(&a, do_unlink, .name = "x");
	POINT(SOON(!status_holders(&broker, "x", a.pid) && status_holders(&broker, "x", b.pid) == 1),
	      "one process has let go of it, the other holds it");
	POINT(!ask(&a, do_make, .name = "y") && !ask(&a, do_acquire, .name = "y", .slot = 1) && place(&a, 1) != at,
	      "the next one is elsewhere");
	POINT(!ask(&a, do_fill, .slot = 1, .value = 1) && !ask(&b, do_look, .value = 0xEE), "and does not touch it");
	if (dies) {
		puppet_kill(&b);
		b.pid = 0;
	} else {
		return_behind_work(&b, 0);
	}
	POINT(SOON(gone("x") && status_counter(&broker, "ranges_cleaned") == 1), "when that one %s it ends",
	      dies ? "dies" : "has returned it, too,");
	POINT(!ask(&a, do_make, .name = "z") && !ask(&a, do_acquire, .name = "z") && place(&a, 0) == at &&
		      !ask(&a, do_look),
	      "invariant 6: the next one is there, of zeros");
	end();
}

static void test_creator_dies(void)
{
	begin(POOL);
	ask(&b, do_make, .name = "brief", .flags = GPUB_EPHEMERAL);
	ask(&b, do_make, .name = "kept");
	ask(&b, do_acquire, .name = "brief");
	ask(&b, do_acquire, .name = "kept", .slot = 1);
	ask(&b, do_fill, .value = 0xEE);
	ask(&b, do_fill, .slot = 1, .value = 0x11);
	ask(&a, do_acquire, .name = "kept");
	puppet_kill(&b);
	b.pid = 0;
	POINT(SOON(gone("brief") && status_counter(&broker, "ranges_cleaned") == 1),
	      "an ephemeral one goes with its creator");
	POINT(!ask(&a, do_look, .value = 0x11), "the one beside it stays");
	POINT(!ask(&a, do_make, .name = "next") && !ask(&a, do_acquire, .name = "next", .slot = 1) &&
		      !ask(&a, do_look, .slot = 1) && counter("mappings_opened") == 2,
	      "invariant 6: and gets a neighbour of zeros, without an open");
	end();
}

int main(void)
{
	ticket = mmap(NULL, GPUB_TICKET_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	harness_begin("slabs", 60);
	test_sharing();
	test_kinds();
	test_chmod();
	test_tickets();
	test_trim();
	test_recycling(SMALL, "small");
	test_recycling(LARGE, "large");
	test_pool();
	test_alone();
	test_no_pool();
	test_short();
	test_unordered_return();
	test_unordered_return_closer();
	test_return_in_flight();
	test_held_elsewhere(false);
	test_held_elsewhere(true);
	test_creator_dies();
	return harness_end();
}

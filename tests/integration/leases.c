/* SPDX-License-Identifier: Apache-2.0 */
/* leases.c - leases that are stale, copied, returned twice, renewed, or of a client that is gone. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"

static struct broker_process broker;
static struct puppet a, b;

static void begin(void)
{
	broker_start(&broker, "host");
	puppet_start(&a, &broker);
	ask(&a, do_stream);
	ask(&a, do_create, .name = "x");
	ask(&a, do_acquire, .name = "x");
}

static void end(void)
{
	puppet_end(&a);
	broker_end(&broker);
}

/* lease[order->slot] becomes a copy of lease[order->value] */
static int copy_lease(const struct order *order)
{
	lease[order->slot] = lease[order->value];
	return 0;
}

static int tokens_differ(const struct order *order)
{
	return lease[order->slot].token != lease[order->value].token;
}

/* order->value flips bits of the token. */
static int damage(const struct order *order)
{
	lease[order->slot].token ^= order->value;
	return 0;
}

/* Each call that takes a lease; how many of them do not say ESTALE. */
static int not_stale(const struct order *order)
{
	gpub_lease *l = &lease[order->slot];
	uint64_t value;

	return (gpub_return(l) != -ESTALE) + (gpub_return_on(l, work) != -ESTALE) +
	       (gpub_signal_on(l, 1, work) != -ESTALE) + (gpub_wait_on(l, 0, work) != -ESTALE) +
	       (gpub_timeline(l, &value) != -ESTALE);
}

/* step_value: how many of the lease's device and size are not what was asked for. */
static int place_is(const struct order *order)
{
	const gpub_lease *l = &lease[order->slot];

	step_value = (l->device != (on_cuda() ? 0 : GPUB_HOST)) + (l->size != 4096);
	return 0;
}

static void test_copies(void)
{
	begin();
	POINT(!ask(&a, place_is) && !a.last.value, "a lease says which device it is on, and how large it is");
	ask(&a, copy_lease, .slot = 1, .value = 0);
	POINT(!ask(&a, do_return, .slot = 1), "a copy of a lease gives the buffer back");
	POINT(!ask(&a, not_stale), "invariant 8: then every call refuses the first with ESTALE");
	POINT(ask(&a, do_return, .slot = 1) == -ESTALE, "returned twice: ESTALE");
	ask(&a, do_trim);
	POINT(SOON(!status_holders(&broker, "x", 0)), "the copy held nothing of its own: a trim closes");
	end();
}

/* The slot is taken anew by another lease: the stale one must not end that. */
static void test_stale_spares_others(void)
{
	begin();
	ask(&a, do_return);
	ask(&a, do_acquire, .name = "x", .slot = 1);
	POINT(ask(&a, tokens_differ, .slot = 0, .value = 1), "a later lease has another token");
	POINT(!ask(&a, not_stale), "the earlier one is stale");
	ask(&a, do_trim);
	status_stable(&broker, &a);
	POINT(status_holders(&broker, "x", a.pid) == 1, "and the later one still holds the buffer");
	POINT(!ask(&a, do_return, .slot = 1), "until it is returned itself");
	end();
}

static void test_renew(void)
{
	begin();
	POINT(ask(&a, do_renew) == -EBUSY, "a held lease is not renewed: EBUSY");
	ask(&a, do_return);
	POINT(!ask(&a, do_renew) && !ask(&a, do_write, .value = 5), "a returned one is");
	POINT(ask(&a, do_renew) == -EBUSY, "and is held then");
	ask(&a, do_return_on);
	POINT(!ask(&a, do_renew), "one returned on a stream is renewed too");
	ask(&a, do_return);
	ask(&a, do_trim);
	POINT(!ask(&a, do_renew) && !ask(&a, do_read) && a.last.value == 5,
	      "after a trim the living buffer is mapped again, the same bytes in it");
	ask(&a, do_return);
	ask(&a, do_unlink, .name = "x");
	POINT(ask(&a, do_renew) == -ESTALE, "invariant 8: after unlink a renew is ESTALE");
	ask(&a, do_create, .name = "x");
	POINT(ask(&a, do_renew) == -ESTALE, "invariant 8: also when the name was made anew");
	ask(&a, do_trim);
	POINT(ask(&a, do_renew) == -ESTALE, "invariant 8: also when the old mapping is closed");
	ask(&a, do_acquire, .name = "x", .slot = 1);
	POINT(ask(&a, do_renew) == -ESTALE, "invariant 8: also when the new one is mapped");
	end();
}

/* Enough slots for more leases at once than the first block has. */
static int many(const struct order *order)
{
	static gpub_lease many_leases[100];
	int error = 0;

	for (int i = 0; !error && i < 100; i++)
		error = gpub_acquire(client, order->name, GPUB_READ, 0, &many_leases[i]);
	for (int i = 0; i < 100; i++)
		for (int j = 0; j < i; j++)
			error |= many_leases[i].token == many_leases[j].token;
	for (int i = 0; !error && i < 100; i++)
		error = i % 2 ? gpub_return(&many_leases[i]) : gpub_return_on(&many_leases[i], work);
	for (int i = 0; !error && i < 100; i++)
		error = gpub_return(&many_leases[i]) != -ESTALE;
	return error;
}

static void test_many(void)
{
	begin();
	POINT(!ask(&a, many, .name = "x"), "a hundred leases of one buffer: each its own token, returned once");
	ask(&a, do_return);
	ask(&a, do_trim);
	POINT(SOON(!status_holders(&broker, "x", 0)), "and then nothing is held");
	end();
}

static void test_rights(void)
{
	begin();
	ask(&a, do_acquire, .name = "x", .slot = 1, .rights = GPUB_READ);
	ask(&a, do_create, .name = "t", .flags = GPUB_TIMELINE);
	ask(&a, do_acquire, .name = "t", .slot = 2, .rights = GPUB_READ);
	POINT(ask(&a, do_signal, .slot = 2, .value = 1) == -EACCES, "a lease to read signals no timeline: EACCES");
	ask(&a, do_return, .slot = 2);
	ask(&a, do_renew, .slot = 2);
	POINT(ask(&a, do_signal, .slot = 2, .value = 1) == -EACCES, "a renewed lease has the same rights");
	end();
}

static int never_acquired(const struct order *order)
{
	gpub_lease none;

	(void)order;
	memset(&none, 0, sizeof none);
	return (gpub_return(&none) != -EINVAL) + (gpub_renew(&none) != -EINVAL) +
	       (gpub_return_on(&none, work) != -EINVAL);
}

static void test_damaged(void)
{
	begin();
	POINT(!ask(&a, never_acquired), "a lease that was never acquired: EINVAL");
	ask(&a, copy_lease, .slot = 1, .value = 0);
	ask(&a, damage, .slot = 1, .value = 1ull << 63);
	POINT(ask(&a, do_return, .slot = 1) == -EINVAL && ask(&a, do_renew, .slot = 1) == -EINVAL,
	      "a token that names no slot: EINVAL");
	ask(&a, copy_lease, .slot = 1, .value = 0);
	ask(&a, damage, .slot = 1, .value = 2);
	POINT(!ask(&a, not_stale, .slot = 1), "a token of another sequence: ESTALE");
	POINT(!ask(&a, do_return), "the lease itself is unharmed");
	end();
}

static void test_disconnected(void)
{
	begin();
	ask(&a, do_create, .name = "y");
	ask(&a, do_acquire, .name = "y", .slot = 1);
	ask(&a, do_return, .slot = 1);
	ask(&a, do_disconnect);
	POINT(SOON(!status_holders(&broker, "x", 0)), "a disconnect gives back what was held");
	POINT(!ask(&a, not_stale) && ask(&a, do_renew) == -ESTALE && ask(&a, do_renew, .slot = 1) == -ESTALE,
	      "a lease of a disconnected client: ESTALE");
	POINT(ask(&a, do_acquire, .name = "x", .slot = 2) == -ESTALE && ask(&a, do_trim) == -ESTALE,
	      "the client itself: ESTALE");
	ask(&a, do_disconnect);
	POINT(!ask(&a, do_connect), "it may connect anew");
	POINT(!ask(&a, not_stale) && ask(&a, do_renew) == -ESTALE && ask(&a, do_renew, .slot = 1) == -ESTALE,
	      "invariant 8: leases of the connection before stay stale");
	POINT(!ask(&a, do_acquire, .name = "x"), "its names are there");
	end();
}

/* Both brokers' first buffer has the same name and the same serial. */
static void test_other_broker(void)
{
	struct broker_process other;
	struct order order = { .run = do_connect };
	uint64_t generation;

	begin();
	ask(&a, do_stat, .name = "x");
	generation = a.last.value;
	ask(&a, do_return);
	ask(&a, do_disconnect);
	broker_start(&other, "host");
	puppet_start(&b, &other);
	ask(&b, do_create, .name = "x");
	ask(&b, do_stat, .name = "x");
	POINT(b.last.value == generation, "two brokers count their generations alike");
	snprintf(order.name, sizeof order.name, "%s", other.address);
	puppet_tell(&a, order);
	POINT(!receive(&a), "a client leaves one and connects to the other");
	POINT(ask(&a, do_renew) == -ESTALE, "invariant 8: a lease of another broker is not renewed here");
	puppet_end(&a);
	puppet_end(&b);
	broker_end(&other);
	broker_end(&broker);
}

/* What several users can and cannot is users.c's. */
static int expects(const struct order *order)
{
	gpub_expectation any = GPUB_EXPECTATION_INIT, own = GPUB_EXPECTATION_INIT, wrong = { 0 };
	gpub_lease l = { .token = 77 };
	int errors = 0;

	(void)order;
	own.owner = geteuid();
	wrong.owner = own.owner;
	errors += gpub_acquire_as(client, "x", &wrong, GPUB_READ, 0, &l) != -EINVAL;
	errors += gpub_acquire_as(client, "x", &own, GPUB_MINE, 0, &l) != -EINVAL;
	errors += gpub_acquire_as(client, "y", &own, GPUB_READ, 0, &l) != -ENOENT;
	own.owner++;
	errors += gpub_acquire_as(client, "x", &own, GPUB_READ, 0, &l) != -EPERM;
	errors += l.token != 77;
	own.owner--;
	errors += gpub_acquire_as(client, "x", &own, GPUB_READ | GPUB_MINE, 0, &l) != 0;
	errors += l.rights != (GPUB_READ | GPUB_MINE) || gpub_return(&l);
	errors += gpub_acquire_as(client, "x", &any, GPUB_READ, 0, &l) != 0 || gpub_return(&l);
	errors += gpub_acquire_as(client, "x", NULL, GPUB_READ, 0, &l) != 0 || gpub_return(&l);
	return errors;
}

static void test_expectations(void)
{
	begin();
	POINT(!ask(&a, expects), "what is expected of a buffer's owner: met, not met, and no expectation");
	POINT(!ask(&a, do_return), "which leaves other leases alone");
	end();
}

int main(void)
{
	harness_begin("leases", 60);
	test_copies();
	test_stale_spares_others();
	test_renew();
	test_many();
	test_rights();
	test_damaged();
	test_disconnected();
	test_other_broker();
	test_expectations();
	return harness_end();
}

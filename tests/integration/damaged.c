/* SPDX-License-Identifier: Apache-2.0 */
/*
 * damaged.c - leases that something wrote over, given to each function that takes one: a negative errno and one error
 * message, never a crash, and the lease itself stays what it was.
 *
 * A bounded fuzz with a fixed seed, in a client of a real broker. tests/fuzz/fuzz-client.c does the same with
 * libFuzzer's inputs.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "harness.h"

#define ROUNDS 4000

static struct broker_process broker;
static struct puppet a;

/* ---- each function that takes a lease ---- */

static int call_signal(gpub_lease *damaged)
{
	return gpub_signal_on(damaged, 1, work);
}

static int call_wait(gpub_lease *damaged)
{
	return gpub_wait_on(damaged, 0, work);
}

static int call_timeline(gpub_lease *damaged)
{
	uint64_t value;

	return gpub_timeline(damaged, &value);
}

static int call_return_on(gpub_lease *damaged)
{
	return gpub_return_on(damaged, work);
}

static const struct function {
	const char *name;
	int (*call)(gpub_lease *damaged);
} functions[] = {
	{ "gpub_return", gpub_return },     { "gpub_return_on", call_return_on }, { "gpub_renew", gpub_renew },
	{ "gpub_signal_on", call_signal },  { "gpub_wait_on", call_wait },        { "gpub_timeline", call_timeline },
};

#define FUNCTIONS (sizeof functions / sizeof functions[0])

/* ---- what is written over it ---- */

/* xorshift64*: the same rounds each time. */
static uint64_t next_random(void)
{
	static uint64_t state = 0x9e3779b97f4a7c15;

	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 0x2545f4914f6cdd1d;
}

/* Nothing that a client could be: where reading is a fault, where there is something else, and anything. */
static gpub_client *wild_client(const gpub_lease *good)
{
	static char other[4096];
	static void *closed;

	if (!closed)
		closed = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	switch (next_random() % 6) {
	case 0:
		return NULL;
	case 1:
		return (gpub_client *)(uintptr_t)(next_random() % 4096);
	case 2:
		return closed;
	case 3:
		return (gpub_client *)other;
	case 4:
		return (gpub_client *)((uintptr_t)good->client ^ 1ull << next_random() % 64);
	default:
		return (gpub_client *)(uintptr_t)next_random();
	}
}

/* Its client alone, and then each call of it is EINVAL. */
static int wild_clients(const struct order *order)
{
	const struct function *function = &functions[order->slot];

	for (int i = 0; i < ROUNDS; i++) {
		gpub_lease damaged = lease[i % 2];
		int error;

		damaged.client = wild_client(&lease[0]);
		error = function->call(&damaged);
		if (error != -EINVAL || !strstr(gpub_strerror_last(), "lease")) {
			fprintf(stderr, "# round %d: client %p: %d, %s\n", i, (void *)damaged.client, error,
				gpub_strerror_last());
			return 1;
		}
	}
	return 0;
}

static uint64_t any_token(const gpub_lease *good)
{
	switch (next_random() % 4) {
	case 0:
		return 0;
	case 1:
		return good->token ^ 1ull << next_random() % 64;
	case 2:
		return good->token + next_random() % 1000 - 500;
	default:
		return next_random();
	}
}

/* Neither lease's, for what names a lease is one. */
static uint64_t wild_token(const gpub_lease *good)
{
	uint64_t token;

	do
		token = any_token(good);
	while (token == lease[0].token || token == lease[1].token);
	return token;
}

static bool allowed(int error)
{
	return error == -EINVAL || error == -ESTALE || error == -EBUSY;
}

/* Anything in it, its token surely. */
static int wild_tokens(const struct order *order)
{
	const struct function *function = &functions[order->slot];
	const char *text;

	for (int i = 0; i < ROUNDS; i++) {
		gpub_lease damaged = lease[i % 2], before;
		int error;

		damaged.token = wild_token(&lease[i % 2]);
		if (next_random() % 2) {
			damaged.ptr = (void *)(uintptr_t)next_random();
			damaged.size = next_random();
			damaged.device = (int32_t)next_random();
			damaged.rights = (uint32_t)next_random();
		}
		before = damaged;
		error = function->call(&damaged);
		text = gpub_strerror_last();
		if (!allowed(error) || strlen(text) < 15 || memcmp(&before, &damaged, sizeof damaged)) {
			fprintf(stderr, "# round %d: token %#llx for %#llx: %d, %s\n", i,
				(unsigned long long)before.token, (unsigned long long)lease[i % 2].token, error, text);
			return 1;
		}
	}
	return 0;
}

/* ---- the points ---- */

static void begin(bool held)
{
	broker_start(&broker, "host");
	puppet_start(&a, &broker);
	ask(&a, do_stream);
	ask(&a, do_create, .name = "x", .flags = GPUB_TIMELINE);
	ask(&a, do_acquire, .name = "x");
	ask(&a, do_signal, .value = 1);
	ask(&a, do_acquire, .name = "x", .slot = 1);
	if (!held) {
		ask(&a, do_return);
		ask(&a, do_return_on, .slot = 1);
	}
}

static void end(bool held)
{
	if (held)
		POINT(!ask(&a, do_return) && !ask(&a, do_return_on, .slot = 1), "the leases themselves are unharmed");
	else
		POINT(!ask(&a, do_renew) && !ask(&a, do_renew, .slot = 1), "the leases can be renewed still");
	puppet_end(&a);
	broker_end(&broker);
}

static void test_each(bool held)
{
	begin(held);
	for (size_t i = 0; i < FUNCTIONS; i++) {
		POINT(!ask(&a, wild_clients, .slot = (int)i), "%s() of a %s lease with a wild client pointer: EINVAL",
		      functions[i].name, held ? "held" : "returned");
		POINT(!ask(&a, wild_tokens, .slot = (int)i),
		      "%s() of a %s lease with a damaged token: refused, and untouched", functions[i].name,
		      held ? "held" : "returned");
	}
	end(held);
}

/* The second connection of a process is another structure, found in another way. */
static int second_client(const struct order *order)
{
	gpub_client *second = NULL;
	gpub_lease of_second;
	int error = gpub_connect(&second, order->name);

	if (!error)
		error = gpub_acquire(second, "x", GPUB_READ, 0, &of_second);
	if (!error)
		error = gpub_return(&of_second);
	if (!error)
		error = gpub_renew(&of_second);
	if (!error)
		error = gpub_return_on(&of_second, work);
	gpub_disconnect(second);
	if (!error && gpub_return(&of_second) != -ESTALE)
		error = 1;
	return error;
}

static void test_second_client(void)
{
	struct order order = { .run = second_client };

	begin(true);
	snprintf(order.name, sizeof order.name, "%s", broker.address);
	puppet_tell(&a, order);
	POINT(!receive(&a), "leases of a process's second client are as good, and stale once it is disconnected");
	end(true);
}

int main(void)
{
	harness_begin("damaged", 60);
	test_each(true);
	test_each(false);
	test_second_client();
	return harness_end();
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-client.c - what a server may send to the library.
 *
 * A server of the library's own user can do much, but nothing that it sends crashes the library's user, has a call hang
 * when the connection ends, gives out memory that is not there, or leaves a descriptor open. The input: a length, so
 * many bytes that say what the client does, and the server's script (server.c).
 */
#include "server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/manage.h"
#include "gpubroker.h"

#define LEASES    4
#define PAGES_MAX 48 /* timelines that the client registers: they stay mapped until the process ends */

static char address[SERVER_ADDRESS_SIZE];
static gpub_client *client;
static gpub_lease leases[LEASES];
static void *stream;
static unsigned pages;
static struct input *calls_left; /* what the client is still to do */

static const char *const names[] = { "a", "b", "c/d", "" };

static bool failed(int error)
{
	const char *text = gpub_strerror_last();

	FUZZ_HOLDS(error <= 0, "a call gives %d", error);
	if (!error)
		return false;
	for (; *text; text++)
		FUZZ_HOLDS((unsigned char)*text >= ' ' && *text != 0x7f, "byte 0x%02x stands in an error message",
			   (unsigned char)*text);
	return true;
}

/* All that it promises can be read. */
static void lease_read(const gpub_lease *lease)
{
	const volatile uint8_t *bytes = lease->ptr;
	unsigned sum = 0;

	for (uint64_t i = 0; i < lease->size; i += 4096)
		sum += bytes[i];
	sum += bytes[lease->size - 1];
	FUZZ_HOLDS(lease->client == client && sum < 1u << 30, "a lease is another's");
}

static void do_acquire(gpub_lease *lease, uint8_t how)
{
	static const int timeouts[] = { 0, 0, 1, 5 };

	if (!failed(gpub_acquire(client, names[how >> 2 & 3], how & 0x10 ? GPUB_READ : GPUB_READ | GPUB_WRITE,
				 timeouts[how >> 5 & 3], lease)))
		lease_read(lease);
}

static void do_create(gpub_lease *lease, uint8_t how)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	(void)lease;
	spec.size = 4096;
	spec.device = how >> 5 & 1;
	spec.timeout_ms = how & 0x40 ? 5 : 0;
	failed(gpub_create(client, names[how >> 2 & 3], &spec));
}

static void do_stat(gpub_lease *lease, uint8_t how)
{
	gpub_info info = { .struct_size = sizeof info };

	(void)lease;
	if (!failed(gpub_stat(client, names[how >> 2 & 3], &info)))
		FUZZ_HOLDS(!strcmp(info.name, names[how >> 2 & 3]), "gpub_stat() answers for another name");
}

static void do_unlink(gpub_lease *lease, uint8_t how)
{
	const char *name = names[how >> 2 & 3];
	gpub_info info = { .struct_size = sizeof info };

	(void)lease;
	if (how & 0x10)
		failed(gpub_seal(client, name));
	else if (how & 0x20)
		failed(gpub_rename(client, name, names[how >> 6 & 3], how & (GPUB_REPLACE | GPUB_PERSIST)));
	else if (how & 0x80)
		failed(gpub_resize(client, name, how & 0x40 ? 1 << 20 : 4096, 5));
	else if (how & 0x40)
		failed(gpub_wait_newer(client, name, 0, 5, &info));
	else
		failed(gpub_unlink(client, name));
}

static void do_snapshot(void)
{
	bool all;
	int file, error = client_snapshot(client, &file, &all);

	if (!failed(error))
		close(file);
}

static int list_each(const gpub_info *info, void *context)
{
	unsigned *left = context;

	FUZZ_HOLDS(strlen(info->name) < sizeof info->name, "a listed name has no end");
	return !--*left;
}

static void do_list(uint8_t how)
{
	unsigned left = 1 + how % 8;

	failed(gpub_list(client, how & 0x20 ? "*" : names[how >> 2 & 3], list_each, &left));
}

static void do_manage(gpub_lease *lease, uint8_t how)
{
	const char *name = names[how >> 2 & 3];

	(void)lease;
	if ((how & 0x50) == 0x50)
		do_list(how);
	else if (how & 0x40)
		do_snapshot();
	else if (how & 0x10)
		failed(gpub_drain(client, name, how & 0x20 ? 5 : 0));
	else
		failed(how & 0x20 ? gpub_chmod(client, name, 0640) : gpub_chown(client, name, 5000, GPUB_KEEP));
}

/* The ticket is whatever the server sent for one. */
static void do_redeem(gpub_lease *lease, uint8_t how)
{
	char text[GPUB_TICKET_MAX];

	if (failed(gpub_ticket_issue(client, names[how >> 2 & 3], GPUB_READ, NULL, text)))
		return;
	FUZZ_HOLDS(strlen(text) < sizeof text, "a ticket's text has no end");
	if (!failed(gpub_redeem(client, text, lease)))
		lease_read(lease);
}

static void do_return(gpub_lease *lease, uint8_t how)
{
	failed(how & 4 ? gpub_return_on(lease, stream) : gpub_return(lease));
}

static void do_renew(gpub_lease *lease, uint8_t how)
{
	(void)how;
	if (!failed(gpub_renew(lease)))
		lease_read(lease);
}

static void do_trim(gpub_lease *lease, uint8_t how)
{
	(void)lease;
	failed(how & 4 ? gpub_trim(client) : gpub_set_flags(client, how & 8 ? GPUB_BACKGROUND_CLOSE : 0));
}

static void do_timeline(gpub_lease *lease, uint8_t how)
{
	uint64_t value;

	if (how & 4) {
		failed(gpub_timeline(lease, &value));
		return;
	}
	if (pages++ >= PAGES_MAX)
		return;
	failed(how & 8 ? gpub_signal_on(lease, how, stream) : gpub_wait_on(lease, 0, stream));
}

static int call_damaged(gpub_lease *damaged, unsigned which)
{
	uint64_t value;

	switch (which) {
	case 0:
		return gpub_renew(damaged);
	case 1:
		return gpub_return_on(damaged, stream);
	case 2:
		return gpub_timeline(damaged, &value);
	case 3:
		return gpub_wait_on(damaged, UINT64_MAX, stream); /* refused for its value at the latest */
	case 4:
		return gpub_signal_on(damaged, UINT64_MAX, stream);
	default:
		return gpub_return(damaged);
	}
}

/*
 * A lease lies in the application's memory: what something wrote over it is refused, by each function that takes one.
 */
static void do_damage(gpub_lease *lease, uint8_t how)
{
	gpub_lease damaged = *lease;
	bool of_client;
	int error;

	input_flip(calls_left, &damaged, sizeof damaged);
	if (how & 4)
		input_take(calls_left, &damaged.client, sizeof damaged.client);
	of_client = damaged.client == client;
	error = call_damaged(&damaged, how >> 3 & 7);
	failed(error);
	FUZZ_HOLDS(of_client || error == -EINVAL, "a lease of no client is refused with %d", error);
}

static void do_device(gpub_lease *lease, uint8_t how)
{
	(void)lease;
	failed(gpub_set_device(client, how >> 2 & 3));
}

static void (*const calls[])(gpub_lease *lease, uint8_t how) = {
	do_acquire, do_acquire, do_damage, do_create, do_stat,     do_unlink, do_return,
	do_return,  do_renew,   do_trim,   do_trim,   do_timeline, do_device, do_timeline,
	do_redeem,  do_manage,
};

static void client_do(struct input *input)
{
	uint8_t which = input_byte(input), how = input_byte(input);

	calls[which % (sizeof calls / sizeof *calls)](&leases[how % LEASES], how);
}

static void client_run(struct input *input)
{
	if (failed(gpub_connect(&client, address)))
		return;
	failed(gpub_set_device(client, 0));
	if (!stream)
		failed(gpub_stream_create(client, 0, &stream));
	calls_left = input;
	while (input->left)
		client_do(input);
	gpub_disconnect(client);
	for (int i = 0; i < LEASES; i++)
		FUZZ_HOLDS(gpub_return(&leases[i]), "a lease outlives its client");
}

/* A broker that misreports a buffer's room, which the fuzzer is, has others' bytes taken for overruns. */
static void set_up(void)
{
	setenv("GPUB_HOST_STRICT", "0", 1);
	server_set_up(address);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = { data, size }, todo;
	static bool ready;
	unsigned before;

	if (!ready)
		set_up();
	ready = true;
	todo.left = input_below(&input, 64);
	todo.left = todo.left < input.left ? todo.left : input.left;
	todo.data = input.data;
	input.data += todo.left;
	input.left -= todo.left;
	memset(leases, 0, sizeof leases);
	before = fuzz_descriptors();
	server_begin(input);
	client_run(&todo);
	server_end();
	FUZZ_HOLDS(fuzz_descriptors() == before, "%u descriptors were open before this input, and %u are now", before,
		   fuzz_descriptors());
	return 0;
}

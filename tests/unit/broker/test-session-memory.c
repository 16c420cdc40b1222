/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-session-memory.c - memory that is exported by a descriptor: MEMORY comes just before the GRANT whose mapping it
 * is for, to that session alone, and to nobody who does not know it.
 *
 * session-harness.h makes the broker and its clients.
 */
#include "session-harness.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/memory/memory.h"
#include "common/sealed.h"
#include "device/device.h"

static struct peer join_vmm(void)
{
	struct peer peer = join();

	broker.memory->exported = EXPORT_VMM;
	return peer;
}

/* The next message of that type, and the descriptor that came with it, or -1. */
static struct wire_message expect(const struct peer *peer, enum wire_type type, int *descriptor)
{
	struct wire_message message;
	struct socket_extra extra;

	assert_int_equal(receive_with(peer->sock, &message, &extra), 0);
	assert_int_equal(message.type, type);
	*descriptor = extra.fd;
	return message;
}

static ino_t file_of(int descriptor)
{
	struct stat st;

	assert_int_equal(fstat(descriptor, &st), 0);
	return st.st_ino;
}

static int unseal(const struct peer *peer, const struct wire_grant *grant, enum export_kind exported,
		  struct device_handle *handle)
{
	const struct board_header *header = peer->board.header;
	struct seal_terms terms = { .session = peer->session,
				    .mapping = grant->mapping,
				    .serial = grant->serial,
				    .size = grant->size,
				    .offset = grant->offset,
				    .address = grant->address,
				    .rights = grant->rights,
				    .version = WIRE_VERSION,
				    .exported = exported };

	memcpy(terms.instance, header->instance_id, 16);
	memcpy(terms.device_uuid, header->device[grant->owner_device].uuid, 16);
	return handle_unseal(handle, &terms, &peer->board.handles[grant->place], peer->welcome.key);
}

/* Acquires the buffer for the first time. Returns the GRANT. */
static struct wire_grant first_acquire(struct peer *peer, const char *name)
{
	struct wire_message message = named(WIRE_ACQUIRE, 5, name), grant;
	const struct buffer *buffer = registry_find(broker.registry, name);
	int descriptor, none;

	say(peer->sock, &message);
	message = expect(peer, WIRE_MEMORY, &descriptor);
	assert_true(descriptor >= 0);
	assert_int_equal(file_of(descriptor), file_of(buffer->allocation->descriptor));
	close(descriptor);
	grant = expect(peer, WIRE_GRANT, &none);
	assert_int_equal(none, -1);
	assert_int_equal(grant.grant.exported, EXPORT_VMM);
	assert_int_equal(message.memory.mapping, grant.grant.mapping);
	return grant.grant;
}

static void invariant_4_a_descriptor_comes_with_its_grant(void **state)
{
	struct peer holder = join_vmm(), other = join_vmm();
	struct device_handle handle;
	struct wire_message message;
	struct wire_grant grant, again;
	int descriptors_before;

	(void)state;
	expect_done(&holder, WIRE_CREATE, "a");
	descriptors_before = descriptors();
	grant = first_acquire(&holder, "a");
	assert_int_equal(unseal(&holder, &grant, EXPORT_VMM, &handle), 0);
	/* the seal says how it is exported */
	assert_int_equal(unseal(&holder, &grant, EXPORT_IPC, &handle), -EKEYREJECTED);
	again = acquire(&holder, "a");
	assert_int_equal(again.place, WIRE_NO_HANDLE); /* and no descriptor comes for what is mapped */
	assert_int_equal(received_already(other.sock, &message), 0);
	assert_int_equal(descriptors(), descriptors_before); /* the broker keeps its own alone */
	send_closed(holder.sock, grant.mapping);
	part(&holder);
	part(&other);
}

/* CUDA IPC takes two processes with one number for one process, also in two namespaces. */
static void test_a_process_with_the_number_of_the_owner_gets_no_memory_that_goes_by_it(void **state)
{
	struct peer peer = join();
	struct wire_message message;

	(void)state;
	assert_int_equal(broker.owner_pid, getpid());
	assert_true(export_of(broker.memory->exported)->pid_matters);
	expect_done(&peer, WIRE_CREATE, "ipc");
	broker.memory->exported = EXPORT_VMM;
	expect_done(&peer, WIRE_CREATE, "vmm");
	broker.memory->exported = EXPORT_IPC;
	session_of(&peer)->own_pid = (uint32_t)getpid();
	message = ask(&peer, WIRE_ACQUIRE, "ipc");
	assert_int_equal(message.type, WIRE_REFUSED);
	assert_int_equal(message.refused.error, -ENODEV);
	assert_non_null(strstr(message.refused.text, "start the program anew"));
	assert_int_equal(broker.counters.mappings_opened, 0);
	send_closed(peer.sock, first_acquire(&peer, "vmm").mapping);
	session_of(&peer)->own_pid++;
	send_closed(peer.sock, acquire(&peer, "ipc").mapping);
	part(&peer);
}

static void test_it_comes_before_a_timelines_page(void **state)
{
	struct peer holder = join_vmm();
	struct wire_message create = named(WIRE_CREATE, 77, "t"), message = named(WIRE_ACQUIRE, 5, "t"), grant;
	int descriptor, page;

	(void)state;
	create.create.flags = GPUB_TIMELINE;
	assert_int_equal(answer_to(&holder, &create).type, WIRE_DONE);
	say(holder.sock, &message);
	message = expect(&holder, WIRE_MEMORY, &descriptor);
	grant = expect(&holder, WIRE_GRANT, &page);
	assert_true(descriptor >= 0 && page >= 0);
	assert_int_not_equal(file_of(descriptor), file_of(page));
	assert_int_equal(message.memory.mapping, grant.grant.mapping);
	close(descriptor);
	close(page);
	send_closed(holder.sock, grant.grant.mapping);
	part(&holder);
}

/* Memory that was made before has a handle, and needs no descriptor. */
static void test_both_kinds_side_by_side(void **state)
{
	struct peer holder = join();
	struct wire_grant grant, other;

	(void)state;
	expect_done(&holder, WIRE_CREATE, "ipc");
	broker.memory->exported = EXPORT_VMM;
	grant = acquire(&holder, "ipc");
	assert_int_equal(grant.exported, EXPORT_IPC);
	create_with_mode(&holder, "vmm", 0640); /* of another kind, and so in another allocation */
	other = first_acquire(&holder, "vmm");
	send_closed(holder.sock, grant.mapping);
	send_closed(holder.sock, other.mapping);
	part(&holder);
}

/* ---- addresses ---- */

static struct wire_message same_address(const char *name, int timeout_ms)
{
	struct wire_message create = named(WIRE_CREATE, 1, name);

	create.create.size = 160u << 20; /* of 256 that the device has */
	create.create.flags = GPUB_SAME_ADDRESS;
	create.create.timeout_ms = timeout_ms;
	return create;
}

/* Who has no memory has no addresses: creates that wait for memory take none from others (invariant 5). */
static void invariant_5_only_memory_has_addresses(void **state)
{
	struct wire_message create = same_address("a", 0);
	struct peer peer = join();
	struct allocation *allocation;
	unsigned placed = 0;

	(void)state;
	assert_int_equal(answer_to(&peer, &create).type, WIRE_DONE);
	create = same_address("b", -1);
	say(peer.sock, &create);
	create = same_address("c", -1);
	say(peer.sock, &create);
	EXPECT_SOON(broker.waiting->count == 2);
	for (allocation = broker.memory->allocations; allocation; allocation = allocation->next)
		placed += allocation->address != 0;
	assert_int_equal(placed, 1);
	part(&peer);
	EXPECT_SOON(!broker.waiting->count);
}

/* The memory was made for nothing: it goes back, and the name is free. */
static void test_without_addresses_a_create_is_undone(void **state)
{
	struct wire_message create = same_address("a", 0);
	struct peer peer = join();

	(void)state;
	while (addresses_take(&broker.memory->addresses, 1))
		;
	expect_refused(&peer, &create, -ENOMEM);
	EXPECT_SOON(broker.counters.allocations_made == 1 && broker.counters.allocations_freed == 1);
	create = named(WIRE_CREATE, 2, "a");
	assert_int_equal(answer_to(&peer, &create).type, WIRE_DONE);
	part(&peer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(invariant_4_a_descriptor_comes_with_its_grant),
		ON(test_a_process_with_the_number_of_the_owner_gets_no_memory_that_goes_by_it),
		ON(test_it_comes_before_a_timelines_page),
		ON(test_both_kinds_side_by_side),
		ON(invariant_5_only_memory_has_addresses),
		ON(test_without_addresses_a_create_is_undone),
	};

	return cmocka_run_group_tests_name("memory", tests, harness_group_setup, harness_group_teardown);
}

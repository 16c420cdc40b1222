/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-host-memory-vmm.c - the host device's memory that is exported by a descriptor: a memfd that nobody can resize,
 * mapped anew by each open, and unmapped without a wait by who knows that no work is left.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/error.h"
#include "host-harness.h"

static const char source[] =
	"#include <string.h>\\n#include <gpubroker-host.h>\\n"
	"static void fill(const gpub_launch_config *config, void **args) {\\n"
	"	(void)config; memset(*(char **)args[0], *(int *)args[1], 8); }\\n"
	"GPUB_HOST_KERNEL(fill, fill, sizeof(char *), sizeof(int));\\n";

/* Memory of this process, as it is exported. A test opens it in the same process, as CUDA allows. */
struct memory {
	void                *ptr;
	struct device_handle handle;
	int                  descriptor;
};

static struct memory make(void)
{
	struct memory memory;

	CHECK(!device->allocate(0, BLOCK, EXPORT_VMM, &memory.ptr) && !device->zero(0, memory.ptr, BLOCK));
	CHECK(!device->export_handle(0, memory.ptr, &memory.handle, &memory.descriptor) && memory.descriptor >= 0);
	return memory;
}

static int map(const struct memory *memory, int descriptor, uint64_t size, void **ptr)
{
	const struct device_memory import = { .handle = memory->handle,
					      .export = export_of(EXPORT_VMM),
					      .descriptor = descriptor,
					      .size = size,
					      .writable = true };

	return device->map(0, &import, ptr);
}

static uint8_t *mapped_at(const struct memory *memory, int ordinal, bool writable, void *address)
{
	const struct device_memory import = { .handle = memory->handle,
					      .export = export_of(EXPORT_VMM),
					      .descriptor = memory->descriptor,
					      .size = BLOCK,
					      .writable = writable,
					      .address = address };
	void *ptr;

	CHECK(!device->map(ordinal, &import, &ptr) && (!address || ptr == address));
	return ptr;
}

static uint8_t *opened(const struct memory *memory, int ordinal)
{
	return mapped_at(memory, ordinal, true, NULL);
}

static void scenario_opens(void)
{
	struct memory memory;
	uint8_t *one, *two, *other;

	start(true, 2);
	memory = make();
	one = opened(&memory, 0);
	two = opened(&memory, 0);
	other = opened(&memory, 1);
	CHECK(one != two && !one[0] && !one[BLOCK - 1]);
	one[7] = 1;
	CHECK(two[7] == 1 && other[7] == 1);
	CHECK(!device->unmap(0, one) && !device->close(0, two) && !device->unmap(1, other));
	CHECK(device->unmap(0, one) == -EINVAL && device->close(0, two) == -EINVAL);
	CHECK(!device->release(0, memory.ptr));
	CHECK(fcntl(memory.descriptor, F_GETFD) < 0); /* nobody gets it any more */
}

static void test_each_open_maps_anew(void **state)
{
	(void)state;
	expect_clean(scenario_opens);
}

static struct device_memory exported(const struct memory *memory)
{
	return (struct device_memory){ .handle = memory->handle,
				       .export = export_of(EXPORT_VMM),
				       .descriptor = memory->descriptor,
				       .size = BLOCK };
}

/* Counts at once, has the bytes that were there, and is another memory for its release: the owner before has ended. */
static void scenario_adoption(void)
{
	struct memory memory, taken;
	struct device_memory import;
	uint64_t before, room;
	uint8_t *mapped;

	start(true, 1);
	CHECK(!device->room(0, &before));
	memory = make();
	mapped = mapped_at(&memory, 0, true, NULL);
	mapped[3] = 7;
	import = exported(&memory);
	CHECK(!device->adopt(0, &import, &taken.ptr) && taken.ptr != memory.ptr);
	CHECK(!device->room(0, &room) && room == before - 2 * BLOCK);
	CHECK(!device->export_handle(0, taken.ptr, &taken.handle, &taken.descriptor));
	CHECK(!memcmp(&taken.handle, &memory.handle, sizeof taken.handle) && taken.descriptor != memory.descriptor);
	CHECK(!device->zero(0, taken.ptr, BLOCK) && !mapped[3] && !device->unmap(0, mapped));
	CHECK(!device->release(0, taken.ptr));
	import.descriptor = memory.descriptor; /* the object is released, whoever has it */
	CHECK(device->adopt(0, &import, &taken.ptr) == -ENOENT);
}

static void test_memory_is_taken_over_by_its_descriptor(void **state)
{
	(void)state;
	expect_clean(scenario_adoption);
}

/* Nothing of the device is used any more, but the object and its bytes are there for who has a descriptor. */
static void scenario_owners_end(void)
{
	struct memory memory, taken;
	struct device_memory import;
	uint64_t before, room;
	uint8_t *mapped;

	start(true, 1);
	CHECK(!device->room(0, &before));
	memory = make();
	import = exported(&memory);
	import.descriptor = dup(memory.descriptor);
	mapped = mapped_at(&memory, 0, true, NULL);
	mapped[3] = 7;
	host_end_owner();
	CHECK(!device->room(0, &room) && room == before);
	CHECK(device->zero(0, memory.ptr, BLOCK) == -EINVAL && mapped[3] == 7);
	CHECK(!device->adopt(0, &import, &taken.ptr));
	CHECK(!device->zero(0, taken.ptr, BLOCK) && !mapped[3] && !device->unmap(0, mapped));
	CHECK(!device->release(0, taken.ptr) && !close(import.descriptor));
}

static void test_memory_outlives_its_owner_by_a_descriptor(void **state)
{
	(void)state;
	expect_clean(scenario_owners_end);
}

static void scenario_no_adoption(void)
{
	struct memory one, two;
	struct device_memory import;
	uint64_t before, room;
	void *ptr = NULL;

	start(true, 1);
	one = make();
	two = make();
	CHECK(!device->room(0, &before));
	import = exported(&one);
	import.size = 2 * BLOCK;
	CHECK(device->adopt(0, &import, &ptr) == -EINVAL);
	import.size = BLOCK + 1;
	CHECK(device->adopt(0, &import, &ptr) == -EINVAL);
	import = exported(&one);
	import.descriptor = two.descriptor;
	CHECK(device->adopt(0, &import, &ptr) == -EINVAL);
	import.export = export_of(EXPORT_IPC);
	CHECK(device->adopt(0, &import, &ptr) == -ENOTSUP && !ptr);
	host_fail_next(HOST_ADOPT, 1, EIO);
	CHECK(device->adopt(0, &import, &ptr) == -EIO);
	CHECK(!device->room(0, &room) && room == before);
	CHECK(!device->release(0, one.ptr) && !device->release(0, two.ptr));
}

static void test_what_is_no_such_memory_is_not_taken_over(void **state)
{
	(void)state;
	expect_clean(scenario_no_adoption);
}

static void scenario_binding(void)
{
	struct memory one, two;
	void *ptr = NULL;

	start(true, 1);
	one = make();
	two = make();
	CHECK(map(&one, two.descriptor, BLOCK, &ptr) == -EINVAL && strstr(error_text(), "not that of the handle"));
	CHECK(map(&one, STDIN_FILENO, BLOCK, &ptr) == -EINVAL);
	CHECK(map(&one, one.descriptor, BLOCK + 1, &ptr) == -EINVAL && !ptr);
	one.handle.bytes[DEVICE_HANDLE_SIZE - 1] ^= 1;
	CHECK(map(&one, one.descriptor, BLOCK, &ptr) == -EINVAL);
	CHECK(device->open(0, &one.handle, BLOCK, &ptr) == -EINVAL && !ptr); /* it names no file */
	CHECK(!device->release(0, one.ptr) && !device->release(0, two.ptr));
}

static void invariant_4_a_descriptor_is_its_handles(void **state)
{
	(void)state;
	expect_clean(scenario_binding);
}

static void scenario_resize(void)
{
	struct memory memory;

	start(true, 1);
	memory = make();
	CHECK(ftruncate(memory.descriptor, 0) && errno == EPERM && ftruncate(memory.descriptor, 2 * BLOCK) &&
	      errno == EPERM);
	CHECK(!device->release(0, memory.ptr));
}

static void invariant_3_nobody_resizes_it(void **state)
{
	(void)state;
	expect_clean(scenario_resize);
}

/*
 * A reader locks the descriptor that it was sent, which is one open file for all, or one of its own, and keeps the
 * lock.
 */
static void scenario_locked(void)
{
	struct memory memory;
	char path[40];
	uint8_t *ptr;
	int own;

	start(true, 1);
	memory = make();
	snprintf(path, sizeof path, "/proc/self/fd/%d", memory.descriptor);
	own = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(own >= 0 && !flock(own, LOCK_EX | LOCK_NB));
	ptr = opened(&memory, 0);
	CHECK(!device->unmap(0, ptr) && !close(own));
	CHECK(!flock(memory.descriptor, LOCK_EX | LOCK_NB));
	ptr = opened(&memory, 0);
	CHECK(!device->unmap(0, ptr));
	CHECK(!device->release(0, memory.ptr)); /* and the lock is no importer */
}

static void invariant_5_a_lock_on_it_keeps_nobody_out(void **state)
{
	(void)state;
	expect_clean(scenario_locked);
}

static void scenario_released(void)
{
	struct memory memory;
	void *ptr = NULL;
	int kept;

	start(true, 1);
	memory = make();
	kept = fcntl(memory.descriptor, F_DUPFD_CLOEXEC, 0);
	CHECK(!device->release(0, memory.ptr));
	CHECK(map(&memory, kept, BLOCK, &ptr) == -ENOENT && !ptr && strstr(error_text(), "does not exist any more"));
	close(kept);
}

static void invariant_8_a_descriptor_of_released_memory_is_refused(void **state)
{
	(void)state;
	expect_clean(scenario_released);
}

/* ---- rights ---- */

static void scenario_read_only(void)
{
	struct memory memory;
	void *writable, *stream;
	uint8_t *ptr;

	start(true, 1);
	memory = make();
	ptr = mapped_at(&memory, 0, false, NULL);
	CHECK(!device->stream_create(0, 0, &stream));
	CHECK(device->copy(stream, ptr, ptr + 8, 8) == -EINVAL && strstr(error_text(), "mapped read-only"));
	CHECK(!device->map_again(0, ptr, true, &writable) && writable != ptr);
	((uint8_t *)writable)[3] = 4;
	CHECK(ptr[3] == 4 && !device->copy(stream, writable, ptr, 8) && !device->stream_sync(stream));
	CHECK(!device->unmap(0, writable) && !device->make_writable(0, ptr));
	ptr[3] = 5;
	CHECK(!device->copy(stream, ptr, ptr + 8, 8) && !device->stream_sync(stream) && !ptr[3]);
	device->stream_destroy(stream);
	CHECK(!device->unmap(0, ptr) && !device->release(0, memory.ptr));
}

static void test_read_only_and_writable_mappings(void **state)
{
	(void)state;
	expect_clean(scenario_read_only);
}

static void violate_kernel_writes(void)
{
	struct memory memory;
	void *module, *stream;

	start(true, 1);
	memory = make();
	CHECK(!device->module_load(twins, &module) && !device->stream_create(0, 0, &stream));
	CHECK(!twin_launch(twin(module, "fill"), stream, 0, mapped_at(&memory, 0, false, NULL), 5));
	device->stream_sync(stream);
}

static void test_a_kernel_that_writes_what_is_read_only_is_reported(void **state)
{
	(void)state;
	expect_violation(violate_kernel_writes, "a write to byte 0 of memory that is mapped read-only");
}

/* ---- addresses ---- */

#define ADDRESS ((uint8_t *)0x440000000000)

static void scenario_address(void)
{
	struct memory memory, other;
	struct device_memory import = { .export = export_of(EXPORT_VMM), .size = BLOCK, .address = ADDRESS };
	void *ptr = NULL;
	uint8_t *map;

	start(true, 2);
	memory = make();
	other = make();
	map = mapped_at(&memory, 0, false, ADDRESS);
	CHECK(mapped_at(&memory, 1, true, ADDRESS) == map); /* one mapping, of two devices */
	map[1] = 6;
	import.handle = other.handle;
	import.descriptor = other.descriptor;
	CHECK(device->map(0, &import, &ptr) == -EADDRINUSE && !ptr);
	CHECK(!device->unmap(0, map) && map[1] == 6 && !device->unmap(1, map));
	/* an unmap gives addresses back */
	CHECK(mapped_at(&other, 0, false, ADDRESS) && !ADDRESS[1] && !device->unmap(0, ADDRESS));
	CHECK(!device->release(0, memory.ptr) && !device->release(0, other.ptr));
}

static void scenario_address_taken(void)
{
	struct memory memory;
	struct device_memory import = { .export = export_of(EXPORT_VMM), .size = BLOCK, .address = ADDRESS };
	static const char long_name[] =
		"a long name, whose end is in an error message, which has room for some 80 bytes of it";
	int file = memfd_create(long_name, MFD_CLOEXEC);
	void *ptr = NULL;

	start(true, 1);
	memory = make();
	import.handle = memory.handle;
	import.descriptor = memory.descriptor;
	CHECK(mmap(ADDRESS, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE, file, 0) == ADDRESS && !close(file));
	CHECK(device->map(0, &import, &ptr) == -EADDRINUSE && !ptr);
	CHECK(strstr(error_text(), "0x440000000000 to 0x44") && strstr(error_text(), " taken in this process by '..."));
	CHECK(strstr(error_text(), "some 80 bytes of it (deleted)' at 0x440000000000"));
	CHECK(strstr(error_text(), ": acquire the buffer before that is mapped"));
	CHECK(!munmap(ADDRESS, 4096) && mapped_at(&memory, 0, true, ADDRESS) && !device->unmap(0, ADDRESS));
	CHECK(!device->release(0, memory.ptr));
}

static void test_memory_is_mapped_where_it_has_to_be(void **state)
{
	(void)state;
	expect_clean(scenario_address);
	expect_clean(scenario_address_taken);
}

/* ---- closing ---- */

/* Behind a wait on a stream, and released when the memory was unmapped. */
static uint64_t *queue_behind_wait(uint8_t *ptr, void **stream)
{
	uint64_t *page = host_page(true);
	void *module;

	CHECK(!device->module_load(twins, &module) && !device->stream_create(0, 0, stream));
	CHECK(!device->stream_wait(*stream, &page[0], 1));
	CHECK(!twin_launch(twin(module, "fill"), *stream, 0, ptr, 5));
	return page;
}

static void scenario_close_waits(void)
{
	struct memory memory;
	uint8_t *kept, *ptr;
	uint64_t *page;
	void *stream;

	start(true, 1);
	memory = make();
	kept = opened(&memory, 0);
	ptr = opened(&memory, 0);
	page = queue_behind_wait(ptr, &stream);
	__atomic_store_n(&page[0], 1, __ATOMIC_RELEASE);
	CHECK(!device->close(0, ptr) && kept[0] == 5);
	CHECK(!device->unmap(0, kept) && !device->release(0, memory.ptr));
}

static void test_a_close_waits_for_what_is_queued(void **state)
{
	(void)state;
	expect_clean(scenario_close_waits);
}

static void violate_unmap_under_work(void)
{
	struct memory memory;
	uint64_t *page;
	uint8_t *ptr;
	void *stream;

	start(true, 1);
	memory = make();
	ptr = opened(&memory, 0);
	page = queue_behind_wait(ptr, &stream);
	CHECK(!device->unmap(0, ptr));
	__atomic_store_n(&page[0], 1, __ATOMIC_RELEASE);
	device->stream_sync(stream);
}

static void violate_launch_after_unmap(void)
{
	struct memory memory;
	uint8_t *ptr;
	void *stream;

	start(true, 1);
	memory = make();
	ptr = opened(&memory, 0);
	CHECK(!device->unmap(0, ptr));
	queue_behind_wait(ptr, &stream);
}

static void violate_release_while_mapped(void)
{
	struct memory memory;

	start(true, 1);
	memory = make();
	opened(&memory, 0);
	device->release(0, memory.ptr);
}

static void violate_ipc_without_wait(int in, int out)
{
	(void)out;
	start(false, 1);
	device->unmap(0, import_from(in, 0));
}

static void violate_ipc_in_a_peer(void)
{
	struct peer peer = peer_start(violate_ipc_without_wait);

	export_to(&peer, owner_memory(BLOCK));
	peer_end(&peer);
}

static void test_violations(void **state)
{
	char text[4096];

	(void)state;
	expect_violation(violate_unmap_under_work, "whose mapping was closed: keep a lease");
	expect_violation(violate_launch_after_unmap, "whose mapping was closed");
	expect_violation(violate_release_while_mapped, "while an importer maps it");
	child_status(violate_ipc_in_a_peer, text, sizeof text);
	assert_non_null(strstr(text, "exported as ipc has none"));
}

static void scenario_reset(void)
{
	struct memory memory;
	uint8_t *ptr;

	start(true, 1);
	memory = make();
	ptr = opened(&memory, 0);
	CHECK(!host_reset(0));
	ptr[3] = 9;
	CHECK(ptr[3] == 9 && !device->unmap(0, ptr) && !device->release(0, memory.ptr));
}

static void test_a_reset_leaves_it_mapped(void **state)
{
	(void)state;
	expect_clean(scenario_reset);
}

static int begin(void **state)
{
	(void)state;
	return scenarios_begin(source);
}

static int end(void **state)
{
	(void)state;
	return scenarios_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_open_maps_anew),
		cmocka_unit_test(test_memory_is_taken_over_by_its_descriptor),
		cmocka_unit_test(test_memory_outlives_its_owner_by_a_descriptor),
		cmocka_unit_test(test_what_is_no_such_memory_is_not_taken_over),
		cmocka_unit_test(invariant_4_a_descriptor_is_its_handles),
		cmocka_unit_test(invariant_3_nobody_resizes_it),
		cmocka_unit_test(invariant_5_a_lock_on_it_keeps_nobody_out),
		cmocka_unit_test(invariant_8_a_descriptor_of_released_memory_is_refused),
		cmocka_unit_test(test_read_only_and_writable_mappings),
		cmocka_unit_test(test_a_kernel_that_writes_what_is_read_only_is_reported),
		cmocka_unit_test(test_memory_is_mapped_where_it_has_to_be),
		cmocka_unit_test(test_a_close_waits_for_what_is_queued),
		cmocka_unit_test(test_violations),
		cmocka_unit_test(test_a_reset_leaves_it_mapped),
	};

	return cmocka_run_group_tests_name("host vmm", tests, begin, end);
}

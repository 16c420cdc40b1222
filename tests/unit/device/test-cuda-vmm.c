/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-cuda-vmm.c - what the CUDA device keeps of memory that it exports by descriptors. The driver is the fake one.
 */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/cuda.h"
#include "tests/fake-cuda/fake-cuda.h"

#define SIZE (8ull << 20)

static const struct device *device;

static int begin(void **state)
{
	struct device_setup setup = { .owner = true };

	(void)state;
	device = device_cuda;
	fake_cuda_order("devices=2 version=13000");
	return device->start(&setup) || device->set_current(0);
}

/* Open descriptors of the fake driver's memory. */
static unsigned memory_descriptors(void)
{
	DIR *fds = opendir("/proc/self/fd");
	const struct dirent *entry;
	char path[300], target[64];
	unsigned count = 0;

	assert_non_null(fds);
	while ((entry = readdir(fds))) {
		ssize_t length;

		snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
		length = readlink(path, target, sizeof target - 1);
		target[length < 0 ? 0 : length] = 0;
		count += strstr(target, "fake-cuda-vmm") != NULL;
	}
	closedir(fds);
	return count;
}

static void *allocated(int ordinal)
{
	void *memory;

	assert_int_equal(device->allocate(ordinal, SIZE, EXPORT_VMM, &memory), 0);
	return memory;
}

/* The piece that stays is a help, and not needed: the first export is its own. */
static void test_memory_is_made_also_without_the_piece_that_stays(void **state)
{
	void *memory;

	(void)state;
	fake_cuda_order("devices=2 version=13000 cuMemExportToShareableHandle=304*1");
	memory = allocated(0);
	assert_int_equal(device->release(0, memory), 0);
	assert_int_equal(memory_descriptors(), 0);
}

/*
 * The driver's first and last descriptor take 0.6 ms (facts.md): after the first allocation there is always one, for
 * all devices.
 */
static void test_one_exported_descriptor_stays_open(void **state)
{
	void *memory[2];

	(void)state;
	memory[0] = allocated(0);
	memory[1] = allocated(1);
	assert_int_equal(device->release(0, memory[0]), 0);
	assert_int_equal(device->release(1, memory[1]), 0);
	assert_int_equal(memory_descriptors(), 1);
	memory[1] = allocated(1);
	assert_int_equal(device->release(1, memory[1]), 0);
	assert_int_equal(memory_descriptors(), 1);
}

static struct device_memory exported(void *memory)
{
	struct device_memory export = { .export = export_of(EXPORT_VMM), .size = SIZE };

	assert_int_equal(device->export_handle(0, memory, &export.handle, &export.descriptor), 0);
	return export;
}

/* The new owner keeps a descriptor of its own, of which clients get copies, until it releases the memory. */
static void test_memory_is_taken_over_by_its_descriptor(void **state)
{
	void *made = allocated(0), *adopted = NULL;
	struct device_memory memory = exported(made), again;
	unsigned before = memory_descriptors();

	(void)state;
	assert_int_equal(device->adopt(0, &memory, &adopted), 0);
	assert_ptr_not_equal(adopted, made);
	assert_int_equal(memory_descriptors(), before + 2); /* its own, and that of the fake driver's mapping */
	assert_int_equal(device->zero(0, adopted, SIZE), 0);
	again = exported(adopted);
	assert_int_not_equal(again.descriptor, memory.descriptor);
	assert_int_equal(device->release(0, made), 0);
	assert_int_equal(device->release(0, adopted), 0);
	assert_int_equal(memory_descriptors(), before - 2);
}

static void test_memory_that_cannot_be_taken_over_leaves_nothing(void **state)
{
	void *made = allocated(0), *adopted = NULL;
	struct device_memory memory = exported(made);
	unsigned before = memory_descriptors();

	(void)state;
	fake_cuda_order("devices=2 version=13000 cuMemImportFromShareableHandle=1*1");
	assert_true(device->adopt(0, &memory, &adopted) < 0);
	fake_cuda_order("devices=2 version=13000 cuMemMap=2*1");
	assert_true(device->adopt(0, &memory, &adopted) < 0);
	fake_cuda_order("devices=2 version=13000");
	memory.export = export_of(EXPORT_IPC);
	assert_int_equal(device->adopt(0, &memory, &adopted), -ENOTSUP);
	assert_null(adopted);
	assert_int_equal(memory_descriptors(), before);
	assert_int_equal(device->release(0, made), 0);
}

/* A kind that is in the table and not in the device must not become another kind's memory. */
static void test_memory_of_another_kind_of_export_is_refused(void **state)
{
	void *memory = NULL;

	(void)state;
	assert_int_equal(device->allocate(0, SIZE, EXPORT_KINDS, &memory), -ENOTSUP);
	assert_null(memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory_is_made_also_without_the_piece_that_stays),
		cmocka_unit_test(test_one_exported_descriptor_stays_open),
		cmocka_unit_test(test_memory_is_taken_over_by_its_descriptor),
		cmocka_unit_test(test_memory_that_cannot_be_taken_over_leaves_nothing),
		cmocka_unit_test(test_memory_of_another_kind_of_export_is_refused),
	};

	return cmocka_run_group_tests_name("memory by descriptors", tests, begin, NULL);
}

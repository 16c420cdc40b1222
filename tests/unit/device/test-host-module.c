/* SPDX-License-Identifier: Apache-2.0 */
/* test-host-module.c - kernel modules and launches on the host device. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "host-harness.h"

static int twins_build(void **state)
{
	(void)state;
	return scenarios_begin(
		"#include <unistd.h>\\n#include <gpubroker-host.h>\\n"
		"unsigned long counter = 5;\\n"
		"static void add(const gpub_launch_config *config, void **args) {\\n"
		"	int *to = *(int **)args[0]; *to += *(int *)args[1] * (int)config->grid[0]; counter++; }\\n"
		"static void nap(const gpub_launch_config *config, void **args) {\\n"
		"	(void)config; usleep(*(unsigned *)args[0]); counter++; }\\n"
		"static void set(const gpub_launch_config *config, void **args) {\\n"
		"	(void)config; __atomic_store_n(*(int **)args[0], 1, __ATOMIC_RELEASE); }\\n"
		"GPUB_HOST_KERNEL(add, add, sizeof(int *), sizeof(int));\\n"
		"GPUB_HOST_KERNEL(set, set, sizeof(int *));\\n"
		"GPUB_HOST_KERNEL(nap, nap, sizeof(unsigned));\\n");
}

static int twins_remove(void **state)
{
	(void)state;
	return scenarios_end();
}

/* ---- modules ---- */

static void scenario_module(void)
{
	gpub_launch_config config = GPUB_LAUNCH_INIT;
	void *module, *kernel, *stream, *managed, *args[1];
	unsigned us = 50000;
	size_t size;
	int sum = 0;

	start(false, 2);
	CHECK(device->module_load("/nonexistent/x.so", &module) == -ENOENT);
	CHECK(device->module_load("/etc/passwd", &module) == -ENOEXEC);
	CHECK(!device->module_load(twins, &module));
	CHECK(device->module_kernel(module, "nothing", &kernel) == -ENOENT);
	CHECK(twin(module, "add") == twin(module, "add"));
	CHECK(!device->module_managed(module, "counter", &managed, &size) && size == sizeof(long));
	CHECK(device->module_managed(module, "missing", &managed, &size) == -ENOENT && *(long *)managed == 5);
	CHECK(!device->stream_create(1, 0, &stream));
	CHECK(!twin_launch(twin(module, "add"), stream, 1, &sum, 4) && !device->stream_sync(stream) && sum == 12);
	CHECK(!twin_launch(twin(module, "add"), NULL, 0, &sum, 1) && !device->stream_sync(NULL) && sum == 15);
	CHECK(twin_launch(twin(module, "add"), stream, 0, &sum, 4) == -EINVAL);
	CHECK(twin_launch(twin(module, "add"), stream, 2, &sum, 4) == -ENODEV);
	args[0] = &us;
	config.device = 1;
	config.stream = stream;
	kernel = twin(module, "nap");
	CHECK(!device->module_launch(kernel, &config, args));
	us = 0; /* copied at the launch */
	CHECK(*(long *)managed == 7);
	CHECK(!device->module_unload(module));
	CHECK(device->module_unload(module) == -EINVAL);
	CHECK(device->module_launch(kernel, &config, args) == -EINVAL);
	CHECK(device->module_kernel(module, "add", &kernel) == -EINVAL);
}

static int launch_sized(void *kernel, uint32_t x, uint32_t y, uint32_t z, uint32_t bx, uint32_t by, uint32_t bz)
{
	gpub_launch_config config = GPUB_LAUNCH_INIT;
	unsigned zero = 0;
	void *args[] = { &zero };

	config.device = 0;
	memcpy(config.grid, (uint32_t[]){ x, y, z }, sizeof config.grid);
	memcpy(config.block, (uint32_t[]){ bx, by, bz }, sizeof config.block);
	return device->module_launch(kernel, &config, args);
}

static void scenario_config(void)
{
	void *module, *nap;

	start(false, 1);
	CHECK(!device->module_load(twins, &module));
	nap = twin(module, "nap");
	CHECK(!launch_sized(nap, 0x7fffffff, 65535, 65535, 1024, 1, 1) && !launch_sized(nap, 1, 1, 1, 4, 4, 64));
	CHECK(launch_sized(nap, 0, 1, 1, 1, 1, 1) == -EINVAL && launch_sized(nap, 1, 1, 0, 1, 1, 1) == -EINVAL);
	CHECK(launch_sized(nap, 0x80000000, 1, 1, 1, 1, 1) == -EINVAL);
	CHECK(launch_sized(nap, 1, 65536, 1, 1, 1, 1) == -EINVAL && launch_sized(nap, 1, 1, 65536, 1, 1, 1) == -EINVAL);
	CHECK(launch_sized(nap, 1, 1, 1, 1025, 1, 1) == -EINVAL && launch_sized(nap, 1, 1, 1, 1, 0, 1) == -EINVAL);
	CHECK(launch_sized(nap, 1, 1, 1, 65536, 65536, 1) == -EINVAL &&
	      launch_sized(nap, 1, 1, 1, 1, 1, 65) == -EINVAL);
	CHECK(launch_sized(nap, 1, 1, 1, 32, 32, 2) == -EINVAL);
	CHECK(!device->module_unload(module));
}

static void test_modules(void **state)
{
	(void)state;
	expect_clean(scenario_module);
	expect_clean(scenario_config);
}

static void violate_launch_across(void)
{
	uint8_t *ptr = owner_memory(BLOCK);
	void *module;

	CHECK(!device->module_load(twins, &module));
	CHECK(!twin_launch(twin(module, "add"), NULL, 0, ptr + 8, 1) && !device->stream_sync(NULL));
	twin_launch(twin(module, "add"), NULL, 1, ptr + 8, 1);
}

static void test_module_violations(void **state)
{
	(void)state;
	expect_violation(violate_launch_across, "open it once for each device");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_modules),
		cmocka_unit_test(test_module_violations),
	};

	return cmocka_run_group_tests_name("host device: modules", tests, twins_build, twins_remove);
}

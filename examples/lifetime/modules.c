/* SPDX-License-Identifier: Apache-2.0 */
/*
 * modules.c - one loading of device code for all devices.
 *
 * A module is opened once. The kernels that are looked up in it belong to no device and no context, so one value of
 * each is launched on every device, also on those that this process first uses later; there is no table of kernels by
 * device here. A __managed__ variable has one address on all of them, and the module is unloaded once. Run it as
 *
 *     broker-run -n 2 --device host:2 -- modules
 *
 * Worker i begins on device i modulo their number, and holds a buffer on each. Owns its buffers; never frees one.
 */
#include <errno.h>

#include "kernels/kernels.h"
#include "say.h"

#define DEVICES_MAX 64
#define WORDS       100003u

struct run {
	struct worker worker;
	int           devices;
	gpub_kernel   fill, checksum, increment; /* one each, whatever the number of devices */
	gpub_lease    data[DEVICES_MAX], sum[DEVICES_MAX];
	void         *stream[DEVICES_MAX];
};

static int home(const struct run *run, int i)
{
	return (int)((run->worker.rank + (unsigned)i) % (unsigned)run->devices);
}

static void kernels_find(struct run *run)
{
	must(gpub_module_kernel(run->worker.module, "fill", &run->fill), "find the kernel fill");
	must(gpub_module_kernel(run->worker.module, "checksum", &run->checksum), "find the kernel checksum");
	must(gpub_module_kernel(run->worker.module, "managed_increment", &run->increment), "find managed_increment");
	say("loaded the module and looked up three kernels, once, for all devices (%d here)", run->devices);
}

/* From here on this process uses that device, with kernels that it found before. */
static void device_enter(struct run *run, int device)
{
	char name[NAME_ROOM];

	must(gpub_set_device(run->worker.client, device), "choose a device");
	must(gpub_stream_create(run->worker.client, GPUB_CURRENT, &run->stream[device]), "make a stream");
	snprintf(name, sizeof(name), "modules/data/%u/%d", run->worker.rank, device);
	run->data[device] = make_buffer(&run->worker, name, WORDS * sizeof(uint32_t), 0);
	snprintf(name, sizeof(name), "modules/sum/%u/%d", run->worker.rank, device);
	run->sum[device] = make_buffer(&run->worker, name, sizeof(uint64_t), 0);
}

static void device_launch(struct run *run, int device)
{
	gpub_launch_config linear = linear_grid(WORDS, run->stream[device]), single = single_grid(run->stream[device]);
	uint32_t           value = 0xfeed;
	uint64_t           count = WORDS, size = WORDS * sizeof(value), amount = 1ull << (device % 64);
	void              *fill[] = { &run->data[device].ptr, &value, &count };
	void              *checksum[] = { &run->sum[device].ptr, &run->data[device].ptr, &size };
	void              *increment[] = { &amount };

	must(gpub_launch(run->fill, &linear, fill), "launch fill");
	must(gpub_launch(run->checksum, &linear, checksum), "launch checksum");
	must(gpub_launch(run->increment, &single, increment), "launch managed_increment");
}

static uint64_t device_sum(struct run *run, int device)
{
	uint64_t sum = 0;

	must(gpub_set_device(run->worker.client, device), "choose a device");
	must(gpub_copy_on(run->worker.client, &sum, run->sum[device].ptr, sizeof(sum), run->stream[device]),
	     "fetch a sum");
	must(gpub_stream_sync(run->stream[device]), "run the kernels");
	return sum;
}

/* What every device's checksum kernel has to find. */
static uint64_t expected_sum(void)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < WORDS / 2; i++)
		sum += checksum_word(0xfeed0000feedull, i);
	return sum + (WORDS % 2 ? checksum_word(0xfeed, WORDS / 2) : 0);
}

static void launch_everywhere(struct run *run)
{
	for (int i = 0; i < run->devices; i++) {
		device_enter(run, home(run, i));
		device_launch(run, home(run, i));
	}
	for (int i = 0; i < run->devices; i++)
		check(device_sum(run, home(run, i)) == expected_sum(), "the same kernels on device %d, %s: right",
		      home(run, i), i ? "first used after they were found" : "this worker's own");
}

/* Each device has added its own bit to the variable, which is read here. */
static void look_at_managed(struct run *run)
{
	uint64_t *counter = NULL, all = run->devices < 64 ? (1ull << run->devices) - 1 : UINT64_MAX;
	void     *seen;
	size_t    size;
	int       same = 0;

	for (int device = 0; device < run->devices; device++) {
		must(gpub_set_device(run->worker.client, device), "choose a device");
		must(gpub_module_managed(run->worker.module, "kernels_managed_counter", &seen, &size),
		     "find the variable");
		counter = counter ? counter : seen;
		same += seen == counter && size == sizeof(*counter);
	}
	check(same == run->devices, "the __managed__ variable has one address, asked for on every device");
	check(*counter == all, "every device added to it (0x%llx)", (unsigned long long)*counter);
}

static void unload(struct run *run)
{
	gpub_launch_config config = single_grid(run->stream[0]);
	uint64_t           amount = 1;
	void              *args[] = { &amount };

	expect(gpub_module_close(run->worker.module), 0, "unload the module, once for all devices");
	run->worker.module = NULL;
	config.device = 0;
	expect(gpub_launch(run->increment, &config, args), -ESTALE, "launch one of its kernels after that");
}

static void leave(struct run *run)
{
	for (int device = 0; device < run->devices; device++) {
		must(gpub_return(&run->data[device]), "return a buffer");
		must(gpub_return(&run->sum[device]), "return a buffer");
		gpub_stream_destroy(run->stream[device]);
	}
}

int main(void)
{
	struct run run = { 0 };

	worker_begin(&run.worker, "Must device code be loaded once for each device?");
	must(gpub_device_count(run.worker.client, &run.devices), "count the devices");
	if (run.devices > DEVICES_MAX)
		run.devices = DEVICES_MAX;
	kernels_find(&run);
	launch_everywhere(&run);
	look_at_managed(&run);
	unload(&run);
	leave(&run);
	return worker_end(&run.worker);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-device.c - the host device: its table of functions, its start, its settings.
 *
 * Fills host_state at the first start(). Starts no thread; each stream starts its thread with its first task. In a
 * forked child start() fails, and every call that begins with host_enter() aborts.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/environment.h"
#include "common/error.h"
#include "common/size.h"
#include "common/wiped.h"
#include "host-connection.h"
#include "host-fault.h"
#include "host-gate.h"
#include "host-import.h"
#include "host-launch.h"
#include "host-memory.h"
#include "host-module.h"
#include "host-object.h"
#include "host-page.h"
#include "host-state.h"
#include "host-stream.h"
#include "host-watch.h"

#define QUARANTINE (64ull << 20) /* default of host_state.quarantine, in bytes */

/* Parses the value of an environment variable by parse(). Leaves *size unchanged if the variable is unset or empty. */
static int bytes_parse(const char *variable, int (*parse)(const char *, uint64_t *), uint64_t *size)
{
	const char *text = environment_get(variable);

	if (text && *text && parse(text, size))
		return error_set(-EINVAL, "%s='%.40s' is not a size: write bytes, or a number with K, M or G", variable,
				 text);
	return 0;
}

/*
 * Returns the default size of a device's memory: its share of half the machine's memory, as much as /dev/shm usually
 * has.
 */
static uint64_t memory_usual(void)
{
	uint64_t physical = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

	return physical / 2 / host_state.devices / HOST_GRANULE * HOST_GRANULE;
}

static bool device_is_visible(unsigned device)
{
	for (unsigned i = 0; i < host_state.visible_count; i++)
		if (host_state.visible[i] == device)
			return true;
	return false;
}

/*
 * Parses GPUB_HOST_VISIBLE, such as "1,0", as CUDA does CUDA_VISIBLE_DEVICES: an invalid device number ends the list.
 */
static int visible_parse(const char *text)
{
	char *end;

	host_state.visible_count = 0;
	for (unsigned i = 0; !text && i < host_state.devices; i++)
		host_state.visible[host_state.visible_count++] = i;
	while (text && *text) {
		long device = strtol(text, &end, 10);

		if (end == text || (*end && *end != ','))
			return error_set(-EINVAL, "GPUB_HOST_VISIBLE: '%.40s' is not a list of device numbers", text);
		if (device < 0 || device >= (long)host_state.devices)
			break;
		if (device_is_visible((unsigned)device))
			return error_set(-EINVAL, "GPUB_HOST_VISIBLE names device %ld twice", device);
		host_state.visible[host_state.visible_count++] = (unsigned)device;
		text = *end ? end + 1 : end;
	}
	return host_state.visible_count ? 0 : error_set(-ENODEV, "GPUB_HOST_VISIBLE shows no host device");
}

static int seed_parse(const char *text)
{
	char *end;

	if (!text || !*text)
		return 0;
	host_state.seed = strtoull(text, &end, 10);
	host_state.seeded = true;
	return *end ? error_set(-EINVAL, "GPUB_HOST_SEED: '%.40s' is not a number", text) : 0;
}

void host_survive_violations(void)
{
	if (!atomic_load(&host_state.started))
		host_state.lenient = true;
}

static int environment_read(void)
{
	const char *strict = environment_get("GPUB_HOST_STRICT");
	int rc;

	if (strict)
		host_state.lenient = !strcmp(strict, "0");
	host_state.memory = memory_usual();
	host_state.quarantine = QUARANTINE;
	host_connections_read();
	rc = bytes_parse("GPUB_HOST_MEMORY", size_parse, &host_state.memory);
	if (!rc)
		rc = bytes_parse("GPUB_HOST_QUARANTINE", size_parse_or_0, &host_state.quarantine);
	if (!rc)
		rc = visible_parse(environment_get("GPUB_HOST_VISIBLE"));
	if (!rc)
		rc = seed_parse(environment_get("GPUB_HOST_SEED"));
	if (!rc)
		rc = host_faults_parse(environment_get("GPUB_HOST_FAIL"));
	return rc;
}

/* Exit handler of the owner: checks the quarantine for late writes, and removes all memory objects. */
static void owner_exit(void)
{
	if (host_forked())
		return;
	host_check_quarantine();
	host_unlink_all();
}

static int owner_start(void)
{
	if (host_state.owner)
		return 0;
	if (atexit(owner_exit))
		return error_set(-ENOMEM, "host device: no memory for the exit handler");
	host_state.owner = true;
	return 0;
}

/* Maps the int of host_state.alive in a page that a fork wipes, and sets it to 1. */
static int alive_page_make(void)
{
	int *page = wiped_map(sizeof *page, PROT_READ | PROT_WRITE);

	if (!page)
		return error_set(-errno, "host device: no memory for a page that a fork wipes: %m");
	*page = 1;
	host_state.alive = page;
	return 0;
}

static int state_make(unsigned count)
{
	int rc;

	host_state.devices = count;
	rc = environment_read();
	if (!rc)
		rc = alive_page_make();
	if (!rc)
		atomic_store(&host_state.started, true);
	return rc;
}

static int start_locked(const struct device_setup *setup, unsigned count)
{
	int rc = 0;

	if (!atomic_load(&host_state.started))
		rc = state_make(count);
	else if (count != host_state.devices)
		return error_set(-EINVAL, "the host device was started with %u devices and cannot become %u",
				 host_state.devices, count);
	if (!rc && setup->owner)
		rc = owner_start();
	return rc;
}

static int start(const struct device_setup *setup)
{
	unsigned count = setup->host_count ? setup->host_count : 1;
	int rc;

	if (host_forked())
		return error_set(-ENOTSUP, "the host device was started before this process was forked: "
					   "fork first, or exec");
	if (count > DEVICE_MAX)
		return error_set(-EINVAL, "%u host devices are too many: at most %d", count, DEVICE_MAX);
	pthread_mutex_lock(&host_state.lock);
	rc = start_locked(setup, count);
	pthread_mutex_unlock(&host_state.lock);
	return rc;
}

unsigned host_total(void)
{
	return host_state.devices;
}

static int count(void)
{
	int rc = host_enter(HOST_OTHER);

	return rc ? rc : (int)host_state.visible_count;
}

/* A device's UUID is equal in all processes, and identifies the device if processes number devices differently. */
static int info(int ordinal, struct device_info *info)
{
	char text[sizeof info->name] = "";
	int device = host_enter_device(HOST_OTHER, ordinal);

	if (device < 0)
		return device;
	snprintf(text, sizeof text, "host device %d", device);
	memcpy(info->uuid, text, sizeof info->uuid);
	memcpy(info->name, text, sizeof info->name);
	info->memory = host_state.memory;
	info->granule = HOST_GRANULE;
	info->pci.bus = -1;
	return 0;
}

static int current(void)
{
	int rc = host_enter(HOST_OTHER);

	return rc ? rc : host_ordinal;
}

static int set_current(int ordinal)
{
	int device = host_enter_device(HOST_OTHER, ordinal);

	if (device < 0)
		return device;
	atomic_store(&host_state.in_use[device], true);
	host_ordinal = ordinal;
	return 0;
}

/* Returns the sticky error, by host_enter(), because a sticky error is one of all devices. */
static int check(int ordinal)
{
	(void)ordinal;
	return host_enter(HOST_OTHER);
}

static uint64_t epoch(int ordinal)
{
	if (ordinal < 0 || ordinal >= (int)host_state.visible_count)
		return 0;
	return 1 + atomic_load_explicit(&host_state.resets[host_state.visible[ordinal]], memory_order_acquire);
}

int host_reset(int ordinal)
{
	int device = host_enter_device(HOST_OTHER, ordinal);

	if (device < 0)
		return device;
	host_gate_close();
	host_streams_end((unsigned)device);
	pthread_mutex_lock(&host_state.lock);
	host_mappings_end((unsigned)device);
	host_modules_unload((unsigned)device);
	pthread_mutex_unlock(&host_state.lock);
	host_gate_open();
	return 0;
}

static void child_after_fork(void)
{
	if (!atomic_load(&host_state.started))
		return;
	wiped_by_hand((void *)host_state.alive, sizeof *host_state.alive);
	host_close_inherited();
}

const struct device device_host = {
	.kind = DEVICE_HOST,
	.name = "host",
	.on_host = true,
	.margin = HOST_MARGIN,
	.descriptors = 1,
	.start = start,
	.count = count,
	.info = info,
	.allocate = host_allocate,
	.adopt = host_adopt,
	.room = host_room,
	.zero = host_zero,
	.export_handle = host_export,
	.release = host_release,
	.names_keep = host_keep_directory,
	.names_restore = host_restore_directory,
	.total = host_total,
	.gone = host_gone,
	.open = host_open,
	.map = host_map,
	.extend = host_extend,
	.map_again = host_map_again,
	.make_writable = host_make_writable,
	.close = host_close,
	.unmap = host_unmap,
	.sync = host_sync,
	.watch = host_watch,
	.unwatch = host_unwatch,
	.check = check,
	.epoch = epoch,
	.current = current,
	.set_current = set_current,
	.page_register = host_page_register,
	.page_unregister = host_page_unregister,
	.stream_write = host_stream_write,
	.stream_wait = host_stream_wait,
	.stream_write_many = host_stream_write_many,
	.stream_wait_many = host_stream_wait_many,
	.stream_after = host_stream_after,
	.stream_create = host_stream_create,
	.stream_sync = host_stream_sync,
	.stream_sync_until = host_stream_sync_until,
	.stream_destroy = host_stream_destroy,
	.copy = host_copy,
	.module_load = host_module_load,
	.module_ready = host_module_ready,
	.module_kernel = host_module_kernel,
	.module_managed = host_module_managed,
	.module_launch = host_module_launch,
	.module_unload = host_module_unload,
	.module_suffix = ".so",
	.child_after_fork = child_after_fork,
};

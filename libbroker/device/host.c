/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.c - the host device: its table, its start, and which devices a process sees.
 *
 * Owns host_state, which is made by the first start() and lives until the process ends. Starts no thread (streams do,
 * when first used). State that a fork copied is dead in the child: start() refuses there, every other call aborts.
 */
#include "host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/environment.h"
#include "common/error.h"
#include "common/size.h"
#include "common/wiped.h"

struct host_state host_state = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	/* Else a steady stream of launches would keep a close waiting for ever. */
	.gate = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP,
};

static _Thread_local int current_ordinal;

static atomic_bool used[DEVICE_MAX];

/* Not getpid(): pids come round again, and a child of a child would look alive. */
bool host_forked(void)
{
	return atomic_load(&host_state.started) && *host_state.alive != 1;
}

static int alive_page_make(void)
{
	int *page = wiped_map(sizeof *page, PROT_READ | PROT_WRITE);

	if (!page)
		return error_set(-errno, "host device: no page that a fork wipes (Linux 4.14): %m");
	*page = 1;
	host_state.alive = page;
	return 0;
}

#define QUARANTINE (64ull << 20)

/* *size stays as it is where the variable says nothing. */
static int bytes_parse(const char *variable, uint64_t *size)
{
	const char *text = environment_get(variable);

	if (text && *text && size_parse(text, size))
		return error_set(-EINVAL, "%s='%.40s' is not a size: write bytes, or a number with K, M or G", variable, text);
	return 0;
}

/* Half of what the machine has, as the kernel itself does with /dev/shm. */
static uint64_t memory_usual(void)
{
	uint64_t physical = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

	return physical / 2 / host_state.devices / HOST_GRANULE * HOST_GRANULE;
}

/* 0 is no size anywhere else. */
static int quarantine_parse(void)
{
	const char *text = environment_get("GPUB_HOST_QUARANTINE");

	host_state.quarantine = text && !strcmp(text, "0") ? 0 : QUARANTINE;
	return host_state.quarantine ? bytes_parse("GPUB_HOST_QUARANTINE", &host_state.quarantine) : 0;
}

static bool device_is_visible(unsigned device)
{
	for (unsigned i = 0; i < host_state.visible_count; i++)
		if (host_state.visible[i] == device)
			return true;
	return false;
}

/* GPUB_HOST_VISIBLE="1,0", as CUDA_VISIBLE_DEVICES: the first number that is no device hides the rest. */
static int visible_parse(const char *text)
{
	char *end;

	host_state.visible_count = 0;
	for (unsigned i = 0; !text && i < host_state.devices; i++)
		host_state.visible[host_state.visible_count++] = i;
	while (text && *text) {
		long device = strtol(text, &end, 10);

		if (end == text || (*end && *end != ','))
			return error_set(-EINVAL, "GPUB_HOST_VISIBLE: '%.40s' is no list of device numbers", text);
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
	return *end ? error_set(-EINVAL, "GPUB_HOST_SEED: '%.40s' is no number", text) : 0;
}

void host_survive_violations(void)
{
	host_state.survives = true;
}

static int environment_read(void)
{
	const char *strict = environment_get("GPUB_HOST_STRICT");
	int rc;

	host_state.lenient = strict ? !strcmp(strict, "0") : host_state.survives;
	host_state.memory = memory_usual();
	host_connections_read();
	rc = bytes_parse("GPUB_HOST_MEMORY", &host_state.memory);
	if (!rc)
		rc = quarantine_parse();
	if (!rc)
		rc = visible_parse(environment_get("GPUB_HOST_VISIBLE"));
	if (!rc)
		rc = seed_parse(environment_get("GPUB_HOST_SEED"));
	if (!rc)
		rc = host_faults_parse(environment_get("GPUB_HOST_FAIL"));
	return rc;
}

/* The end of the owner: late writes are still found, and no object outlives it. A child has inherited none of it. */
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

int host_device_of(int ordinal)
{
	if (ordinal < 0 || ordinal >= (int)host_state.visible_count)
		return error_set(-ENODEV, "there is no host device %d here: this process sees %u", ordinal,
				 host_state.visible_count);
	return (int)host_state.visible[ordinal];
}

static int count(void)
{
	int rc = host_enter(HOST_OTHER);

	return rc ? rc : (int)host_state.visible_count;
}

/* The same bytes in every process, so that processes that number the devices differently agree which is which. */
static int info(int ordinal, struct device_info *info)
{
	char text[sizeof info->name] = "";
	int device, rc = host_enter(HOST_OTHER);

	if (rc)
		return rc;
	device = host_device_of(ordinal);
	if (device < 0)
		return device;
	snprintf(text, sizeof text, "host device %d", device);
	memcpy(info->uuid, text, sizeof info->uuid);
	memcpy(info->name, text, sizeof info->name);
	info->memory = host_state.memory;
	info->granule = HOST_GRANULE;
	return 0;
}

int host_current(void)
{
	int rc = host_enter(HOST_OTHER);

	return rc ? rc : current_ordinal;
}

unsigned host_current_device(void)
{
	return host_state.visible[current_ordinal];
}

void host_device_use(unsigned device)
{
	atomic_store(&used[device], true);
}

bool host_device_in_use(unsigned device)
{
	return atomic_load(&used[device]);
}

static int set_current(int ordinal)
{
	int device, rc = host_enter(HOST_OTHER);

	if (rc)
		return rc;
	device = host_device_of(ordinal);
	if (device < 0)
		return device;
	host_device_use((unsigned)device);
	current_ordinal = ordinal;
	return 0;
}

/* A sticky error of this process shows up at any door. */
static int check(int ordinal)
{
	(void)ordinal;
	return host_enter(HOST_OTHER);
}

uint64_t host_epoch(int ordinal)
{
	if (ordinal < 0 || ordinal >= (int)host_state.visible_count)
		return 0;
	return 1 + atomic_load_explicit(&host_state.resets[host_state.visible[ordinal]], memory_order_acquire);
}

int host_reset(int ordinal)
{
	int device, rc = host_enter(HOST_OTHER);

	if (rc)
		return rc;
	device = host_device_of(ordinal);
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
	.margin = HOST_MARGIN,
	.start = start,
	.count = count,
	.info = info,
	.allocate = host_allocate,
	.room = host_room,
	.zero = host_zero,
	.export_handle = host_export,
	.release = host_release,
	.gone = host_gone,
	.open = host_open,
	.close = host_close,
	.sync = host_sync,
	.watch = host_watch,
	.unwatch = host_unwatch,
	.check = check,
	.epoch = host_epoch,
	.current = host_current,
	.set_current = set_current,
	.page_register = host_page_register,
	.page_unregister = host_page_unregister,
	.stream_write = host_stream_write,
	.stream_wait = host_stream_wait,
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

/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.c - see doctor.h */
#include "doctor.h"

#include <stddef.h>

#include "checks.h"
#include "client/client.h"
#include "report.h"

/*
 * When a check applies: with a connection to a broker (CONNECTED), without (ALONE), if the broker has sent its status
 * (WITH_STATUS), unless the broker has host devices (WITH_CUDA), if CUDA was started here (WITH_CUDA_DEVICES).
 */
enum when { ALWAYS, CONNECTED, ALONE, WITH_STATUS, WITH_CUDA, WITH_CUDA_DEVICES };

static const struct check {
	const char *name; /* as in the JSON output */
	enum when   when;
	void      (*run)(struct exam *exam);
	const char *remedy; /* how to fix faults that the check finds; NULL: findings have their own, or none */
} checks[] = {
	{ "software", ALWAYS, check_software, NULL },
	{ "address", ALWAYS, check_address, NULL },
	{ "listener", ALWAYS, check_listener, NULL },
	{ "connection", ALWAYS, check_connection, NULL },
	{ "leftovers", ALWAYS, check_leftovers,
	  "the next broker of that user, or of root, removes it: broker-run --device host -- true" },
	{ "server", CONNECTED, check_server, NULL },
	{ "container", ALWAYS, check_container, "start the broker outside of all containers" },
	{ "status-file", CONNECTED, check_status_file, NULL },
	{ "stopping", CONNECTED, check_stopping, NULL },
	{ "sessions", WITH_STATUS, check_sessions, "start it with CUDA_DEVICE_MAX_CONNECTIONS=16" },
	{ "broker-descriptors", CONNECTED, check_broker_descriptors,
	  "start it with a higher limit: ulimit -Hn, or LimitNOFILE= of its service" },
	{ "devices", CONNECTED, check_devices, NULL },
	{ "devices", ALONE, check_devices_alone, NULL },
	{ "compute-mode", WITH_CUDA_DEVICES, check_compute_mode, NULL },
	{ "mig", WITH_CUDA_DEVICES, check_mig, "choose one for both: nvidia-smi -L, and CUDA_VISIBLE_DEVICES=MIG-..." },
	{ "connections", ALWAYS, check_connections, "export CUDA_DEVICE_MAX_CONNECTIONS=16" },
	{ "driver", WITH_CUDA, check_driver, NULL },
	{ "library", WITH_CUDA, check_library, "a container needs --gpus all; else install the driver's libcuda1 package" },
	{ "device-files", WITH_CUDA, check_nodes, NULL },
	{ "visible", ALWAYS, check_visible, NULL },
	{ "mps", WITH_CUDA, check_mps, NULL },
	{ "shared-memory", ALWAYS, check_shared_memory,
	  "mount -o remount,size=8G /dev/shm (a container: --shm-size=8g)" },
	{ "cgroup-memory", ALWAYS, check_cgroup_memory, "systemctl set-property UNIT MemoryMax=8G (a container: --memory=8g)" },
	{ "cgroup-processes", ALWAYS, check_cgroup_processes,
	  "systemctl set-property UNIT TasksMax=4096 (a container: --pids-limit=4096)" },
	{ "descriptors", ALWAYS, check_descriptors, "ulimit -n 1024" },
	{ "locked-memory", ALWAYS, check_locked_memory, "ulimit -l 1024, or memlock in /etc/security/limits.conf" },
	{ "address-space", ALWAYS, check_address_space, "ulimit -v unlimited" },
};

static bool applies(enum when when, const struct exam *exam)
{
	switch (when) {
	case CONNECTED:
		return exam->client;
	case ALONE:
		return !exam->client;
	case WITH_STATUS:
		return exam->has_status;
	case WITH_CUDA:
		return !exam->host;
	case WITH_CUDA_DEVICES:
		return exam->device && exam->device->driver;
	default:
		return true;
	}
}

int ctl_doctor(const char *address, bool json)
{
	struct exam exam = { .given = address };

	report_begin(json);
	for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
		report_check(checks[i].name, checks[i].remedy);
		if (applies(checks[i].when, &exam))
			checks[i].run(&exam);
	}
	if (exam.has_status)
		shown_free(&exam.status);
	if (exam.client)
		gpub_disconnect(exam.client);
	return report_end();
}

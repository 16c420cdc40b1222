/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.c - see doctor.h */
#include "doctor.h"

#include <stddef.h>

#include "checks.h"
#include "report.h"

/*
 * When a check is run: always (ALWAYS), with a connection to a broker (CONNECTED), without one (ALONE), or unless the
 * broker has host devices (WITH_CUDA).
 */
enum when { ALWAYS, CONNECTED, ALONE, WITH_CUDA };

static const struct check {
	const char *name; /* name of the check, as in the JSON output */
	enum when   when;
	void      (*run)(struct exam *exam);
} checks[] = {
	{ "software", ALWAYS, check_software },
	{ "connection", ALWAYS, check_connection },
	{ "service", ALONE, check_service },
	{ "brokers", ALONE, check_brokers },
	{ "devices", ALONE, check_devices_alone },
	{ "owner", CONNECTED, check_owner },
	{ "connections", ALWAYS, check_connections },
	{ "driver", WITH_CUDA, check_driver },
	{ "device-files", WITH_CUDA, check_nodes },
	{ "mps", WITH_CUDA, check_mps },
	{ "container", ALWAYS, check_container },
	{ "cgroups", ALWAYS, check_cgroups },
	{ "shared-memory", ALWAYS, check_shared_memory },
	{ "limits", ALWAYS, check_limits },
	{ "buffers", CONNECTED, check_buffers }, /* the last check, because the driver may hang */
};

static bool applies(enum when when, const struct exam *exam)
{
	switch (when) {
	case CONNECTED:
		return exam->connected;
	case ALONE:
		return !exam->connected;
	case WITH_CUDA:
		return !exam->host;
	default:
		return true;
	}
}

int ctl_doctor(const char *address, bool json)
{
	struct exam exam = { .given = address };

	report_begin(json);
	for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
		report_check(checks[i].name);
		if (applies(checks[i].when, &exam))
			checks[i].run(&exam);
	}
	return report_end();
}

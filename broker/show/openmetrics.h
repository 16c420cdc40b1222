/* SPDX-License-Identifier: Apache-2.0 */
/*
 * openmetrics.h - what brokers hold, as metrics: the text of OpenMetrics 1.0.0, or the older one of Prometheus.
 *
 * broker-exporter(8) documents each metric. Labels are what a machine has few of: brokers, users, devices and states; never a
 * buffer's name or a pid. A status file may be anybody's (read.h), so it can neither break the text nor make it long: a sample
 * that is there already is added to, each text is printable ASCII and escaped, and one broker has METRICS_SAMPLES_MAX samples
 * and METRICS_USERS_MAX users at most, and all together METRICS_BROKERS_MAX brokers. Owns the samples of one text, which are
 * gone with it.
 */
#ifndef GPUB_SHOW_OPENMETRICS_H
#define GPUB_SHOW_OPENMETRICS_H

#include <stdint.h>
#include <stdio.h>

#include "read.h"

#define METRICS_BROKERS_MAX 64
#define METRICS_USERS_MAX   1000  /* of one broker; what others have is added up as the user "(others)" */
#define METRICS_SAMPLES_MAX 20000 /* of one broker; gpubroker_omitted_samples counts the rest */

enum metrics_format {
	METRICS_OPENMETRICS,
	METRICS_PROMETHEUS /* version 0.0.4, as promtool and node_exporter's textfile collector read it */
};

#define METRICS_ANY_OWNER UINT32_MAX

/* Which brokers. */
struct metrics_wanted {
	struct instances instances; /* none: all that are found */
	uint32_t         owner;     /* a uid: another user's file counts as absent */
};

/*
 * Writes the metrics of these brokers. One that was named and is not there, or that cannot be read, is told by its state.
 * -ENOMEM, or why /dev/shm cannot be read, with the error message: what was written is then worth nothing. sodium_init() comes
 * first.
 */
int metrics_write(FILE *to, enum metrics_format format, const struct metrics_wanted *wanted);

#endif

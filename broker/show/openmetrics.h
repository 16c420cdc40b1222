/* SPDX-License-Identifier: Apache-2.0 */
/*
 * openmetrics.h - writes the state of brokers as metrics, in the text format of OpenMetrics 1.0.0 or the older one of
 * Prometheus.
 *
 * broker-exporter(8) documents each metric. Labels have values of which a machine has few: brokers, users, devices
 * and states; never a buffer's name or a pid. Any user can make a status file (read.h), so a file can neither break
 * the text nor make it long. Each label is printable ASCII and escaped, samples with equal labels are added, and the
 * numbers of samples, users and brokers are limited (METRICS_..._MAX). Owns the samples while a text is written.
 */
#ifndef GPUB_SHOW_OPENMETRICS_H
#define GPUB_SHOW_OPENMETRICS_H

#include <stdint.h>
#include <stdio.h>

#include "read.h"

#define METRICS_BROKERS_MAX 64
/* largest number of users of one broker; further users are added up as the user "(others)" */
#define METRICS_USERS_MAX   1000
/* largest number of samples of one broker; gpubroker_omitted_samples counts further samples */
#define METRICS_SAMPLES_MAX 20000

enum metrics_format {
	METRICS_OPENMETRICS,
	METRICS_PROMETHEUS /* version 0.0.4, as promtool and node_exporter's textfile collector read it */
};

#define METRICS_ANY_OWNER UINT32_MAX

/* The brokers to be written. */
struct metrics_wanted {
	struct instances instances; /* names of the brokers; empty: all brokers that have a status file */
	/* uid of the only owner whose files count; other files count as missing; METRICS_ANY_OWNER: all count */
	uint32_t         owner;
};

/*
 * Writes the metrics of the wanted brokers. A named broker that is missing or cannot be read has only a state.
 * Returns 0; or, with the error message set and the text incomplete, -ENOMEM, -ENOSPC if the text cannot be written,
 * or the error of reading /dev/shm. Call sodium_init() before.
 */
int metrics_write(FILE *to, enum metrics_format format, const struct metrics_wanted *wanted);

#endif

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

#include <stdio.h>

struct instances;

#define METRICS_BROKERS_MAX 64
#define METRICS_USERS_MAX   1000  /* of one broker; what others have is added up as the user "(others)" */
#define METRICS_SAMPLES_MAX 20000 /* of one broker; gpubroker_omitted_samples counts the rest */

enum metrics_format {
	METRICS_OPENMETRICS,
	METRICS_PROMETHEUS /* version 0.0.4, as promtool and node_exporter's textfile collector read it */
};

/*
 * Writes the metrics of these instances, or, where there are none, of all that are found. One that is not there, or cannot be
 * read, is told by its state. -ENOMEM, or why /dev/shm cannot be read, with the error message; nothing was written then.
 * sodium_init() comes first.
 */
int metrics_write(FILE *to, enum metrics_format format, const struct instances *named);

#endif

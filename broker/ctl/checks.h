/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checks.h - the doctor's checks: each looks at one thing and reports what it finds (report.h).
 *
 * doctor.c has the table of checks, and runs them in its order. All get the same exam: a check finds in the exam what
 * earlier checks have learned. Owns nothing.
 */
#ifndef GPUB_CTL_CHECKS_H
#define GPUB_CTL_CHECKS_H

#include <stdbool.h>

struct exam {
	const char *given;     /* address of the broker on the command line; NULL: none is given */
	bool        connected; /* a broker answered, and took this process as a client */
	bool        ownerless; /* no process owns the broker's device memory now */
	bool        host;      /* the broker's devices are host devices; false without a broker */
};

/* ---- check-broker.c: whether the broker serves this process, and what runs if not ---- */

void check_connection(struct exam *exam);
void check_service(struct exam *exam); /* checks the systemd unit of the packaged broker */
void check_brokers(struct exam *exam); /* reports the brokers that run on this machine */
void check_owner(struct exam *exam);   /* reports the process that owns the broker's device memory */
void check_buffers(struct exam *exam); /* creates and acquires a buffer on each of the broker's devices */

/* ---- check-devices.c: driver and devices ---- */

/* reports which devices a broker here would serve, if this process is connected to none */
void check_devices_alone(struct exam *exam);
void check_connections(struct exam *exam);
void check_driver(struct exam *exam);
void check_nodes(struct exam *exam); /* checks this process's access to the driver's files in /dev */
void check_mps(struct exam *exam);

/* ---- check-process.c: what this process may use ---- */

void check_software(struct exam *exam);
void check_container(struct exam *exam);
void check_cgroups(struct exam *exam);
void check_shared_memory(struct exam *exam);
void check_limits(struct exam *exam);

#endif

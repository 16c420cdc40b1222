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
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "broker/show/read.h"
#include "client/client.h"
#include "common/socket.h"
#include "device/device.h"

struct exam {
	const char *given;                        /* the address on the command line; NULL: none */
	char        address[SOCKET_ADDRESS_SIZE]; /* the broker's address that is tried; "": unknown */
	bool        serves;                       /* a process answered at address */
	pid_t       broker;                       /* the process that answered, or else listens; 0: not visible here */
	uid_t       user;                         /* the user of the process `broker` */
	gpub_client *client;                      /* the connection to the broker; NULL: there is none */
	bool        has_status;                   /* the broker has sent its status */
	struct shown status;                      /* the status, as this user may see it; valid if has_status */
	bool        host;                         /* the broker's devices are host devices; false without a broker */
	const struct device *device;              /* backend started in this process; NULL: none was started */
};

/* ---- check-broker.c: how the broker is reached, and its state ---- */

void check_address(struct exam *exam);
void check_listener(struct exam *exam); /* whether the socket may be opened, has a listener, and gets an answer */
void check_connection(struct exam *exam);
void check_leftovers(struct exam *exam);
void check_server(struct exam *exam);
void check_status_file(struct exam *exam);
void check_stopping(struct exam *exam);
void check_broker_descriptors(struct exam *exam);
void check_sessions(struct exam *exam);

/* ---- check-devices.c: devices, driver, MPS ---- */

void check_devices(struct exam *exam);
void check_devices_alone(struct exam *exam); /* which devices a broker here would serve, if none is connected */
void check_compute_mode(struct exam *exam);
void check_mig(struct exam *exam);
void check_connections(struct exam *exam);
void check_visible(struct exam *exam);
void check_driver(struct exam *exam);
void check_library(struct exam *exam);
void check_nodes(struct exam *exam);
void check_mps(struct exam *exam);

/* ---- check-process.c: what this process may use ---- */

void check_software(struct exam *exam);
void check_container(struct exam *exam);
void check_cgroup_memory(struct exam *exam);
void check_cgroup_processes(struct exam *exam);
void check_shared_memory(struct exam *exam);
void check_descriptors(struct exam *exam);
void check_locked_memory(struct exam *exam);
void check_address_space(struct exam *exam);

/* ---- what several checks need ---- */

/* Returns the user's name, or "uid 5" if there is none; valid until the next call. */
const char *user_name(uid_t uid);

/* Reads a soft limit from /proc; "unlimited" is UINT64_MAX. process: "self" or a pid. False: it cannot be read. */
bool limit_of(const char *process, const char *name, uint64_t *limit);

/* Looks up a variable in a process's initial environment. 1: *value is set, cut to size; 0: not set; -1: unreadable. */
int started_with(pid_t pid, const char *variable, char *value, size_t size);

#endif

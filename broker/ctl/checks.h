/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checks.h - the doctor's checks: each looks at one thing and reports what it finds (report.h).
 *
 * doctor.c has the table of them. An exam goes through it: a check finds in it what those before it have learned. Owns nothing.
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
	const char *given;                        /* the address; NULL: none */
	char        address[SOCKET_ADDRESS_SIZE]; /* that is tried; "": none is known */
	bool        serves;                       /* a broker answered there */
	pid_t       broker;                       /* the process that answered, else who listens; 0: no pid here */
	uid_t       user;                         /* the user of that process */
	gpub_client *client;                      /* NULL: no connection */
	bool        has_status;                   /* the broker was asked for its status, and answered */
	struct shown status;                      /* that answer: what this user may see */
	bool        host;                         /* its devices are host devices; without a broker false */
	const struct device *device;              /* started in this process; NULL: none is */
};

/* ---- check-broker.c: the way to the broker, and how it does ---- */

void check_address(struct exam *exam);
void check_listener(struct exam *exam); /* may it be opened, is it served, does its server run */
void check_connection(struct exam *exam);
void check_leftovers(struct exam *exam);
void check_server(struct exam *exam);
void check_status_file(struct exam *exam);
void check_stopping(struct exam *exam);
void check_broker_descriptors(struct exam *exam);
void check_sessions(struct exam *exam);

/* ---- check-devices.c: devices, driver, MPS ---- */

void check_devices(struct exam *exam);
void check_devices_alone(struct exam *exam); /* without a broker */
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

/* ---- what several of them need ---- */

/* The user's name, or "uid 5", valid until the next call. */
const char *user_name(uid_t uid);

/* A process's soft limit as /proc tells it, "unlimited" as UINT64_MAX. process: "self", or its pid. False: it cannot be read. */
bool limit_of(const char *process, const char *name, uint64_t *limit);

/* A variable that the process was started with. 1, and its value, cut; 0: it was not set; -1: it cannot be read. */
int started_with(pid_t pid, const char *variable, char *value, size_t size);

#endif

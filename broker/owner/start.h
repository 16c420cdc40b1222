/* SPDX-License-Identifier: Apache-2.0 */
/*
 * start.h - starts the devices in the process that owns their memory, and says what the broker must know of them.
 *
 * Owns what a kind of device needs for all of the process: on the host device, the names of the memory. Uses nothing of
 * the broker.
 */
#ifndef GPUB_OWNER_START_H
#define GPUB_OWNER_START_H

#include <stdbool.h>

#include "common/board.h"
#include "common/name.h"
#include "device/device.h"
#include "device/select.h"

/* What the owner must know of the broker: plain data. */
struct owner_setup {
	char device[DEVICE_CHOICE_SIZE]; /* which devices, as device_select() takes it: "auto", "cuda", "host:2" */
	char instance[INSTANCE_SIZE];    /* the broker's instance; the memory of the host device is named after it */
	bool several_users;              /* other users open the memory, too */
};

/* What the devices are: plain data. */
struct owner_facts {
	enum device_kind   kind;
	unsigned           count;      /* number of devices that serve, 1 to DEVICE_MAX */
	unsigned           host_total; /* device_setup.host_count of the clients; 0: the kind needs none */
	struct device_info device[DEVICE_MAX];
};

/*
 * Starts the devices. Call it once in a process, and only if no other process has memory of the instance. Returns 0 and
 * *facts, or a negative errno with the error message set: those of device_select() and of the device; -ENODEV: there is
 * no device.
 */
int owner_start(const struct owner_setup *setup, struct owner_facts *facts);

/* Stores what is known of the devices of a kind that was started. Returns as owner_start(). */
int owner_facts_of(const struct device *device, struct owner_facts *facts);

/* Returns whether memory of the kind has names, which others may remove. */
bool owner_has_names(enum device_kind kind);

/* Unlocks the directory of the memory's names, which the broker then removes. Called when no order follows. */
void owner_leave(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * create.h - broker-ctl's create of a buffer, on a device with the broker's own number. Owns nothing.
 */
#ifndef GPUB_CTL_CREATE_H
#define GPUB_CTL_CREATE_H

#include "broker/base/values.h"

struct create_order {
	const char   *name;
	struct amount amount;
	unsigned      mode, flags; /* GPUB_EPHEMERAL ... */
	int           wait_ms;
};

/* Negative errno with the error message; -ETIMEDOUT: no memory came in that time. */
int ctl_create(gpub_client *client, const struct create_order *order);

#endif

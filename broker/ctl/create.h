/* SPDX-License-Identifier: Apache-2.0 */
/* create.h - creates a buffer for broker-ctl, on a device that is given by its index in the broker. Owns nothing. */
#ifndef GPUB_CTL_CREATE_H
#define GPUB_CTL_CREATE_H

#include "broker/base/values.h"

struct create_order {
	const char   *name;
	struct amount amount;
	unsigned      mode, flags; /* flags: GPUB_EPHEMERAL and others */
	int           wait_ms;     /* milliseconds that the create may wait for memory; 0: not at all */
};

/*
 * Creates the buffer. Returns 0 or negative errno with the error message; -ETIMEDOUT: there was no memory within
 * wait_ms.
 */
int ctl_create(gpub_client *client, const struct create_order *order);

#endif

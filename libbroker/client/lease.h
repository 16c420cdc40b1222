/* SPDX-License-Identifier: Apache-2.0 */
/* lease.h - finds the slot and the record of a lease. Owns nothing. */
#ifndef GPUB_LEASE_H
#define GPUB_LEASE_H

#include "gpubroker.h"

struct record;
struct slot;

/*
 * Finds the slot that the lease's token names, whether the lease is held or not. Returns 0; -EINVAL if the lease is
 * damaged or was never acquired; or the error of client_check(). The error message is set.
 */
int lease_slot(const gpub_lease *lease, struct slot **slot);

/*
 * Finds the record of a held lease, which the hold keeps from reuse. Returns 0; -ESTALE if the lease is not held any
 * more; or the error of lease_slot(). The error message is set.
 */
int lease_record(const gpub_lease *lease, struct record **record);

/* Checks the arguments of gpub_acquire(), except the client and the form of the name. -EINVAL, error message set. */
int lease_acquire_check(const char *name, unsigned rights, int timeout_ms, const gpub_lease *lease);

#endif

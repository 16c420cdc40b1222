/* SPDX-License-Identifier: Apache-2.0 */
/* lease.h - finds the slot and the record of a lease. Owns nothing. */
#ifndef GPUB_LEASE_H
#define GPUB_LEASE_H

#include "gpubroker.h"

struct record;
struct slot;

/*
 * Finds the slot that the lease names, whether the lease is held or not. Returns 0; -EINVAL if the lease is damaged
 * or was never acquired; or the error of client_check().
 */
int lease_slot(const gpub_lease *lease, struct slot **slot);

/* The record of a held lease; the hold keeps it from reuse. -ESTALE: not held any more; or lease_slot()'s error. */
int lease_record(const gpub_lease *lease, struct record **record);

/* Checks gpub_acquire()'s arguments, except the form of the name. */
int lease_acquire_check(const char *name, unsigned rights, int timeout_ms, const gpub_lease *lease);

#endif

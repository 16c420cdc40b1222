/* SPDX-License-Identifier: Apache-2.0 */
/* lease.h - from a lease to its slot and record. Owns nothing. */
#ifndef GPUB_LEASE_H
#define GPUB_LEASE_H

#include "gpubroker.h"

struct record;
struct slot;

/* The slot that a lease names. 0, or -EINVAL, -ESTALE, or the error of client_check(). */
int lease_slot(const gpub_lease *lease, struct slot **slot);

/* The record of a held lease, which pins it. -ESTALE: the lease was returned. */
int lease_record(const gpub_lease *lease, struct record **record);

/* Checks gpub_acquire()'s arguments, except the form of the name. */
int lease_acquire_check(const char *name, unsigned rights, int timeout_ms, const gpub_lease *lease);

#endif

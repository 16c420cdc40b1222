/* SPDX-License-Identifier: Apache-2.0 */
/* lease.h - what a lease leads to. Owns nothing. */
#ifndef GPUB_LEASE_H
#define GPUB_LEASE_H

#include "gpubroker.h"

struct record;
struct slot;

/* The slot that a lease names. 0, or -EINVAL, -ESTALE, or the client's own state. */
int lease_slot(const gpub_lease *lease, struct slot **slot);

/* The record of a lease that is held now: pinned for as long as it is. -ESTALE: it was returned. */
int lease_record(const gpub_lease *lease, struct record **record);

/* Whether what gpub_acquire() is given makes sense, but for the name's form. */
int lease_acquire_check(const char *name, unsigned rights, int timeout_ms, const gpub_lease *lease);

#endif

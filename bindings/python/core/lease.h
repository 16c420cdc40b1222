/* SPDX-License-Identifier: Apache-2.0 */
/* lease.h - gpubroker.Lease: one hold as a Python object. Client.acquire() and Client.redeem() make it. */
#ifndef GPUB_PYTHON_LEASE_H
#define GPUB_PYTHON_LEASE_H

#include "hold.h"
#include "module.h"

/* Takes the reference over, also where it fails. */
PyObject *lease_new(const struct module_types *types, struct hold *hold);

#endif

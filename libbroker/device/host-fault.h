/* SPDX-License-Identifier: Apache-2.0 */
/* host-fault.h - failures of the host device: violations of its rules, injected failures, sticky errors. */
#ifndef GPUB_HOST_FAULT_H
#define GPUB_HOST_FAULT_H

#include <stdbool.h>

#include "host.h"

/* Reports a violation, which is a bug of this process, and aborts the process. */
_Noreturn void host_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Reports a violation that another process may have caused, then aborts this process unless host_state.lenient. */
void host_violation_of_others(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * The first step of most calls of the device; not of start(), epoch(), watch() and unwatch(), for example. Returns 0,
 * or an error if the device was not started, a sticky error exists, or a failure of this call is injected. Aborts in a
 * forked child.
 */
int host_enter(enum host_call call);

/* Does host_enter(), then returns the number of the device with this ordinal, or an error. */
int host_enter_device(enum host_call call, int ordinal);

bool host_sticky(void);
/* returns -EIO, error message set, if a sticky error exists (host_make_sticky()); else 0 */
int  host_sticky_error(void);

/*
 * Injects the failures that $GPUB_HOST_FAIL lists. text: its value, or NULL. -EINVAL, error message set: another form.
 */
int host_faults_parse(const char *text);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* host-fault.h - what goes wrong on the host device: violations, injected failures, sticky errors. */
#ifndef GPUB_HOST_FAULT_H
#define GPUB_HOST_FAULT_H

#include <stdbool.h>

#include "host.h"

/* Reports a bug of this process and ends it. */
_Noreturn void host_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Reports what another process may have brought about, and ends this one unless host_state.lenient. */
void host_violation_of_others(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The first step of every call: 0 if the device was started, this is no fork, and no failure is due. */
int host_enter(enum host_call call);

/* The same for a call on one device: that device's number, or the error. */
int host_enter_device(enum host_call call, int ordinal);

bool host_sticky(void);
int  host_sticky_error(void); /* 0, or -EIO with the error set, for a call that has waited */

/* Reads GPUB_HOST_FAIL. */
int host_faults_parse(const char *text);

#endif

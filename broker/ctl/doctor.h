/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor.h - looks for what keeps programs from using a broker, from where such a program would run.
 *
 * One table holds its checks in their order (checks.h), with how to fix what each finds; report.h prints the findings. Changes
 * nothing, makes no context on any device and no buffer. Owns the exam that the checks share.
 */
#ifndef GPUB_CTL_DOCTOR_H
#define GPUB_CTL_DOCTOR_H

#include <stdbool.h>

/* address: as given, or NULL. Returns 0, or 1 where a finding is a FAIL. */
int ctl_doctor(const char *address, bool json);

#endif

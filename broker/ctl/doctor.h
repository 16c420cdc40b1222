/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor.h - broker-ctl doctor: looks for what keeps a program that runs here from using a broker.
 *
 * One table holds the checks (checks.h) in their order, with how to fix the fault that each may find; report.h prints
 * the findings. Changes nothing, makes no context on any device and no buffer. Owns the exam that the checks share.
 */
#ifndef GPUB_CTL_DOCTOR_H
#define GPUB_CTL_DOCTOR_H

#include <stdbool.h>

/* Runs the checks. address: of the broker, from the command line; NULL: not given. Returns 1 if one fails, else 0. */
int ctl_doctor(const char *address, bool json);

#endif

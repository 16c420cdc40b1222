/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor.h - broker-ctl doctor: looks for what keeps a program that runs here from using a broker.
 *
 * The doctor tries what a program does, a connect, a create and an acquire, and prints the library's error if one
 * fails. The checks (checks.h) of one table look at what no error can say; report.h prints the findings. Leaves nothing
 * behind. Owns the exam that the checks share.
 */
#ifndef GPUB_CTL_DOCTOR_H
#define GPUB_CTL_DOCTOR_H

#include <stdbool.h>

/*
 * Runs the checks. address: address of the broker on the command line; NULL: none is given. Returns 1 if a check fails,
 * else 0.
 */
int ctl_doctor(const char *address, bool json);

#endif

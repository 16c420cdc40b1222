/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor.h - looks for what keeps programs from using a broker, from where such a program would run.
 *
 * Prints one line on stdout for each check: "ok: ", "warn: " or "FAIL: ", and in the latter how to fix it. Changes
 * nothing, makes no context on any device and no buffer. Owns nothing.
 */
#ifndef GPUB_CTL_DOCTOR_H
#define GPUB_CTL_DOCTOR_H

/* address: as given, or NULL. Returns 0, or 1 where a line begins with FAIL. */
int ctl_doctor(const char *address);

#endif

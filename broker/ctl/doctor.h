/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor.h - looks, as a program in its place would, for what keeps programs from using a broker.
 *
 * One line on stdout for each thing it looked at: "ok: ", "warn: " or "FAIL: ", and in the latter what to do about it.
 * Changes nothing, makes no context on any device and no buffer. Owns nothing.
 */
#ifndef GPUB_CTL_DOCTOR_H
#define GPUB_CTL_DOCTOR_H

/* address: as given, or NULL. Returns 0, or 1 where a line says FAIL. */
int ctl_doctor(const char *address);

#endif

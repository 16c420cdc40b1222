/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h - what the doctor found: a line on stdout for each finding, or all of them as JSON.
 *
 * A finding says what is so; where it is a fault, why that matters, and behind a semicolon how to fix it. Owns the findings
 * until report_end(), and nothing else. Never prints what is not printable ASCII: paths and names come from others.
 */
#ifndef GPUB_CTL_REPORT_H
#define GPUB_CTL_REPORT_H

#include <stdbool.h>

enum verdict { OK, WARN, FAIL };

void report_begin(bool json);

/* What is found from here on is of that check. remedy: how to fix its faults, unless one has its own; NULL: nothing that is known. */
void report_check(const char *name, const char *remedy);

#define ok(...)   report(OK, __VA_ARGS__)
#define warn(...) report(WARN, __VA_ARGS__)
#define fail(...) report(FAIL, __VA_ARGS__)

void report(enum verdict verdict, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* How to fix the fault that is reported next. */
void report_remedy(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* True: a finding is a FAIL. */
bool report_end(void);

#endif

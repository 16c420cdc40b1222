/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h - prints the doctor's findings on stdout: each as a line at once, or all as JSON at the end.
 *
 * A finding states a fact. If it is a fault, the finding also states why it matters and, after a semicolon, the remedy:
 * how to fix it. Owns the findings until report_end(). Prints only printable ASCII, because paths and names may come
 * from other users.
 */
#ifndef GPUB_CTL_REPORT_H
#define GPUB_CTL_REPORT_H

#include <stdbool.h>

enum verdict { OK, WARN, FAIL };

void report_begin(bool json);

/*
 * Begins a check: the next findings are reported under its name. remedy: how to fix its faults, for those without a
 * report_remedy() of their own; NULL: none. Both strings must stay valid until the next check.
 */
void report_check(const char *name, const char *remedy);

#define ok(...)   report(OK, __VA_ARGS__)
#define warn(...) report(WARN, __VA_ARGS__)
#define fail(...) report(FAIL, __VA_ARGS__)

/* Reports one finding. OK: no fault; WARN: a possible fault; FAIL: a fault. */
void report(enum verdict verdict, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Sets the remedy of the next finding, instead of that of the check. */
void report_remedy(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints the JSON, if chosen. Returns true if a finding is a FAIL. */
bool report_end(void);

#endif

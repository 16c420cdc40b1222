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

/* Begins a check: the next findings have its name in JSON. The name must stay valid until the next check. */
void report_check(const char *name);

/*
 * Report a finding: ok(FORMAT, ...) that is no fault; warn(REMEDY, FORMAT, ...) a possible fault; fail(REMEDY, FORMAT,
 * ...) a fault.
 */
#define ok(...)           report(OK, NULL, __VA_ARGS__)
#define warn(remedy, ...) report(WARN, remedy, __VA_ARGS__)
#define fail(remedy, ...) report(FAIL, remedy, __VA_ARGS__)

/* Reports one finding. remedy: how to fix it; NULL: none, or the text has it. */
void report(enum verdict verdict, const char *remedy, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Ends the report, and prints it if report_begin() chose JSON. Returns true if a finding is a FAIL. */
bool report_end(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h - what a broker tells people while it runs: one line on stderr, "PROGRAM: ...".
 *
 * Logged once, where it is decided. Never given a key, a handle or a ticket. Owns nothing.
 */
#ifndef GPUB_LOG_H
#define GPUB_LOG_H

void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explain.h - broker-status --why: has a running broker ask its clients what they wait for, reads the broker's status
 * file, and prints the explanations that why.h derives.
 *
 * If this user may not read the file, the records that the broker sends this user are used instead (ask.h). If a broker
 * is stopped or dead, or cannot be asked, its file is used as it is, and a line before the explanations says how old it
 * is. Owns nothing.
 */
#ifndef GPUB_SHOW_EXPLAIN_H
#define GPUB_SHOW_EXPLAIN_H

#include "read.h"

enum explain_exit { EXPLAIN_DONE = 0, EXPLAIN_NONE = 1, EXPLAIN_DEADLOCK = 3 };

/*
 * Explains one broker. about: the buffer's name or the pid to explain; NULL: everything that waits. Returns the exit
 * status.
 */
enum explain_exit explain_one(const char *instance, const char *about);

/*
 * Explains the brokers one after the other, each under its name if there are several. about: as for explain_one().
 * Returns the exit status of all together.
 */
enum explain_exit explain_all(const struct instances *instances, const char *about);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explain.h - broker-status --why: asks a broker that runs, reads its status file, and prints what why.h finds in it.
 *
 * Where the file is not for this user, what the broker shows this user takes its place (ask.h). A broker that is stopped or dead, or
 * that cannot be asked, is explained by what its file holds; the first line says how old that is. Owns nothing.
 */
#ifndef GPUB_SHOW_EXPLAIN_H
#define GPUB_SHOW_EXPLAIN_H

#include "read.h"

enum explain_exit { EXPLAIN_DONE = 0, EXPLAIN_NONE = 1, EXPLAIN_DEADLOCK = 3 };

/* about: a buffer's name or a process's number; NULL: everything. Returns the exit status. */
enum explain_exit explain_one(const char *instance, const char *about);

/* One broker after the other, under its name where there are several. */
enum explain_exit explain_all(const struct instances *instances, const char *about);

#endif

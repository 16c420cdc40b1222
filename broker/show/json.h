/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.h - broker-status --json: prints the records of a status file, and what the reader knows of the file and the
 * broker.
 *
 * The keys are those of records.c and a few that json.c and process.c add; broker-status(1) documents all of them, and
 * a key's meaning never changes. Prints only ASCII, so that no file can send control sequences to a terminal. Owns
 * nothing.
 */
#ifndef GPUB_SHOW_JSON_H
#define GPUB_SHOW_JSON_H

#include "read.h"

/* version of the keys and their meaning; grows if an existing key changes, not if keys are added */
#define JSON_VERSION 1
/* Prints any JSON value on stdout. */
void json_print(const json_t *json);

/* Prints one broker as an object on stdout. */
void json_show(const struct shown *shown);

/*
 * Print an array of brokers on stdout: json_list() one broker, after `before` others, and json_list_end() the end of
 * an array of `count` brokers.
 */
void json_list(const struct shown *shown, size_t before);
void json_list_end(size_t count);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status-file.h - for tests: status files that a broker could have written, part by part, in memfds.
 *
 * Owns nothing. A function that cannot do its work fails the test.
 */
#ifndef GPUB_TESTS_STATUS_FILE_H
#define GPUB_TESTS_STATUS_FILE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "broker/show/read.h"
#include "broker/status/status.h"

/* A session that maps the memory of one of two buffers, and uses it. */
enum { DEVICE, USER, SESSION, LIVE, DRAINING, MAPPING, GRANT, FREE, RECORDS };

struct status_header header_of(uint64_t records);
union status_record record_of(int which);

void put(int fd, const void *data, size_t size, off_t offset);
void put_header(int fd, struct status_header header); /* sealed */
void put_record(int fd, int slot, union status_record record);

/* One with all of these records. */
int good_file(void);

/* As broker-status does. The caller frees it. */
struct shown read_file(int fd);

size_t size_of(const struct shown *shown, const char *array);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* status-file.c - see status-file.h */
#include "status-file.h"

#include "broker/base/process-start.h"
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct status_header header_of(uint64_t records)
{
	return (struct status_header){ .magic = STATUS_MAGIC,
				       .format = STATUS_FORMAT,
				       .counters_count = sizeof(struct counters) / sizeof(uint64_t),
				       .pid = (uint64_t)getpid(),
				       .start_time = process_start((uint64_t)getpid(), NULL),
				       .instance = "other",
				       .device_kind = "host",
				       .waiting = 3,
				       .records = records,
				       .counters = { .buffers_created = 2 } };
}

union status_record record_of(int which)
{
	union status_record record = { 0 };

	switch (which) {
	case DEVICE:
		record.device = (struct status_device){ .bytes = 1000, .idle = 10, .pooled = 20, .name = "a device" };
		record.type = TRACKED_DEVICE;
		break;
	case USER:
		record.user = (struct status_user){ .uid = 7, .used = { 4096, 2, 1 }, .requests = QUOTA_NONE };
		memset(record.user.limit, 0xff, sizeof record.user.limit);
		record.type = TRACKED_USER;
		break;
	case SESSION:
		record.session = (struct status_session){
			.id = 5, .pid = 1, .uid = 7, .command = "solver", .since = 1600000000
		};
		record.type = TRACKED_SESSION;
		break;
	case LIVE:
		record.buffer = (struct status_buffer){ .state = STATUS_LIVE,
							.generation = 9,
							.allocation = 2,
							.allocated = 400,
							.name = "live",
							.created = 1500000000 };
		record.type = TRACKED_BUFFER;
		break;
	case DRAINING:
		record.buffer = (struct status_buffer){ .state = STATUS_DRAINING,
							.generation = 8,
							.allocation = 2,
							.allocated = 300,
							.name = "draining",
							.created = 1500000000 };
		record.type = TRACKED_BUFFER;
		break;
	case MAPPING:
		record.mapping = (struct status_mapping){ .id = 3, .session = 5, .allocation = 2, .bytes = 4096 };
		record.type = TRACKED_MAPPING;
		break;
	case GRANT:
		record.grant = (struct status_grant){ .mapping = 3, .generation = 9 };
		record.type = TRACKED_GRANT;
		break;
	default:
		break;
	}
	return record;
}

void put(int fd, const void *data, size_t size, off_t offset)
{
	assert_int_equal(pwrite(fd, data, size, offset), size);
}

void put_header(int fd, struct status_header header)
{
	status_seal(&header.seal, STATUS_HEADER_SEALED, 1);
	put(fd, &header, sizeof header, 0);
}

void put_record(int fd, int slot, union status_record record)
{
	if (record.type)
		status_seal(&record.seal, status_size(record.type), 1);
	put(fd, &record, sizeof record, (off_t)STATUS_OFFSET(slot));
}

int good_file(void)
{
	int fd = memfd_create("status", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, 0640), 0);
	put_header(fd, header_of(RECORDS));
	for (int i = 0; i < RECORDS; i++)
		put_record(fd, i, record_of(i));
	return fd;
}

struct shown read_file(int fd)
{
	struct shown shown;

	assert_int_equal(shown_read_fd(&shown, "x", fd), 0);
	return shown;
}

size_t size_of(const struct shown *shown, const char *array)
{
	return json_array_size(json_object_get(shown->text, array));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* format.c - see format.h */
#include "format.h"

#include <string.h>

#define ERROR_MAX 4095 /* the kernel's largest errno */

size_t status_size(uint32_t type)
{
	static const size_t sizes[] = { [TRACKED_DEVICE] = sizeof(struct status_device),
					[TRACKED_USER] = sizeof(struct status_user),
					[TRACKED_SESSION] = sizeof(struct status_session),
					[TRACKED_BUFFER] = sizeof(struct status_buffer),
					[TRACKED_MAPPING] = sizeof(struct status_mapping),
					[TRACKED_GRANT] = sizeof(struct status_grant),
					[TRACKED_TIMELINE] = sizeof(struct status_timeline),
					[TRACKED_WAIT] = sizeof(struct status_wait),
					[TRACKED_REQUEST] = sizeof(struct status_request),
					[TRACKED_ADDRESS] = sizeof(struct status_address),
					[TRACKED_HISTOGRAM] = sizeof(struct status_histogram),
					[TRACKED_JOB] = sizeof(struct status_job),
					[TRACKED_OWNER] = sizeof(struct status_owner),
					[TRACKED_BROKER] = sizeof(struct status_broker),
					[TRACKED_PROGRAM] = sizeof(struct status_program) };

	return type < sizeof sizes / sizeof *sizes ? sizes[type] : 0;
}

const struct status_part status_parts[EVENT_PARTS] = { [EVENT_OF_BROKER] = { 0, 256 },
						       [EVENT_OF_USERS] = { 256, 2816 },
						       [EVENT_REFUSED] = { 3072, STATUS_EVENTS - 3072 } };

bool status_event_is_good(const struct status_event *event, uint32_t place)
{
	size_t length = strnlen(event->text, sizeof event->text);
	struct status_part part;

	if (!event->seal.sequence || length == sizeof event->text ||
	    !status_is_whole(&event->seal, status_event_size(length)) || event->kind >= EVENT_KINDS ||
	    event->error > 0 || event->error < -ERROR_MAX)
		return false;
	part = status_parts[event_rows[event->kind].part];
	return place - part.first < part.count;
}

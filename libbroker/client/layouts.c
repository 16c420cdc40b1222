/* SPDX-License-Identifier: Apache-2.0 */
/* layouts.c - gpub_lease_layout, gpub_layout_parse, gpub_layout_text: what the bytes of a buffer are. Owns nothing. */
#include <errno.h>
#include <string.h>

#include "client.h"
#include "common/error.h"
#include "common/layout.h"
#include "common/thread.h"
#include "lease.h"
#include "record.h"

/* The lock keeps the record as it is: a reset, which another thread may notice at any moment, ends leases by force. */
int gpub_lease_layout(const gpub_lease *lease, gpub_layout *layout)
{
	struct record *record;
	int error = lease_record(lease, &record);
	HOLD_CANCELLATION();

	if (!error && !layout)
		error = error_set(-EINVAL, "there is no place for the layout: pass the address of one");
	if (error)
		return error;
	pthread_mutex_lock(&lease->client->lock);
	error = lease_record(lease, &record);
	if (!error)
		*layout = record->layout;
	pthread_mutex_unlock(&lease->client->lock);
	return error;
}

int gpub_layout_parse(const char *text, gpub_layout *layout)
{
	if (!layout)
		return error_set(-EINVAL, "there is no place for the layout: pass the address of one");
	return layout_parse(text, layout);
}

int gpub_layout_text(const gpub_layout *layout, char *text)
{
	int error;

	if (!layout || !text)
		return error_set(-EINVAL, "there is no layout, or no place for its text: pass GPUB_LAYOUT_TEXT_MAX bytes");
	error = layout_check(layout);
	if (!error)
		layout_text(layout, text);
	return error;
}

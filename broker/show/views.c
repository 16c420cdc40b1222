/* SPDX-License-Identifier: Apache-2.0 */
/* views.c - see views.h */
#include "views.h"

#include <stdlib.h>
#include <string.h>

static uint64_t key_of(const struct view *view, const union status_record *record)
{
	uint64_t key;

	memcpy(&key, record->bytes + view->key, sizeof key);
	return key;
}

/* Sets rest[] to the two numbers by which records with equal keys are sorted. */
static void rest_of(const struct view *view, const union status_record *record, uint64_t rest[2])
{
	rest[0] = rest[1] = 0;
	switch (record->type) {
	case TRACKED_GRANT:
		rest[0] = view->key == offsetof(struct status_grant, mapping) ? record->grant.generation :
									record->grant.mapping;
		break;
	case TRACKED_MAPPING:
		rest[0] = record->mapping.id;
		break;
	case TRACKED_WAIT:
		rest[0] = record->wait.generation;
		rest[1] = record->wait.value;
		break;
	case TRACKED_REQUEST:
		rest[0] = record->request.generation;
		rest[1] = record->request.since;
		break;
	default:
		break;
	}
}

static int compare_numbers(uint64_t one, uint64_t other)
{
	return (one > other) - (one < other);
}

static int compare(const void *a, const void *b, void *context)
{
	const struct view *view = context;
	const union status_record *one = *(const union status_record *const *)a;
	const union status_record *other = *(const union status_record *const *)b;
	uint64_t rest[2], rest_other[2];
	int order = compare_numbers(key_of(view, one), key_of(view, other));

	if (order)
		return order;
	rest_of(view, one, rest);
	rest_of(view, other, rest_other);
	order = compare_numbers(rest[0], rest_other[0]);
	return order ? order : compare_numbers(rest[1], rest_other[1]);
}

size_t view_find(const struct view *view, uint64_t key)
{
	size_t low = 0, high = view->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (key_of(view, view->at[middle]) < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool view_has(const struct view *view, size_t i, uint64_t key)
{
	return i < view->count && key_of(view, view->at[i]) == key;
}

const union status_record *view_one(const struct view *view, uint64_t key)
{
	size_t i = view_find(view, key);

	return view_has(view, i, key) ? view->at[i] : NULL;
}

struct range view_range(const struct view *view, uint64_t key)
{
	return (struct range){ view_find(view, key), key == UINT64_MAX ? view->count : view_find(view, key + 1) };
}

struct sums view_sums(const struct view *view, struct range range)
{
	const struct sums *from = &view->before[range.begin], *to = &view->before[range.end];

	return (struct sums){ to->orphaned - from->orphaned, to->bytes - from->bytes, to->grants - from->grants };
}

const union status_record *views_mapping_of(const struct views *views, const union status_record *grant)
{
	return view_one(&views->view[MAPPINGS], grant->grant.mapping);
}

/* ---- making them ---- */

static bool any(const struct views *views, const union status_record *record)
{
	(void)views;
	(void)record;
	return true;
}

static bool mapping_has_session(const struct views *views, const union status_record *mapping)
{
	return view_one(&views->view[SESSIONS], mapping->mapping.session);
}

static bool grant_has_mapping(const struct views *views, const union status_record *grant)
{
	return views_mapping_of(views, grant);
}

static const struct {
	enum tracked_type type;
	size_t            key;
	bool            (*takes)(const struct views *views, const union status_record *record);
} known[VIEWS] = {
	[DEVICES] = { TRACKED_DEVICE, offsetof(struct status_device, index), any },
	[USERS] = { TRACKED_USER, offsetof(struct status_user, uid), any },
	[SESSIONS] = { TRACKED_SESSION, offsetof(struct status_session, id), any },
	[BUFFERS] = { TRACKED_BUFFER, offsetof(struct status_buffer, generation), any },
	[MAPPINGS] = { TRACKED_MAPPING, offsetof(struct status_mapping, id), mapping_has_session },
	[GRANTS] = { TRACKED_GRANT, offsetof(struct status_grant, generation), grant_has_mapping },
	[OF_MAPPING] = { TRACKED_GRANT, offsetof(struct status_grant, mapping), grant_has_mapping },
	[OF_SESSION] = { TRACKED_MAPPING, offsetof(struct status_mapping, session), mapping_has_session },
	[OF_ALLOCATION] = { TRACKED_MAPPING, offsetof(struct status_mapping, allocation), mapping_has_session },
	[TIMELINES] = { TRACKED_TIMELINE, offsetof(struct status_timeline, generation), any },
	[WAITS] = { TRACKED_WAIT, offsetof(struct status_wait, session), any },
	[REQUESTS] = { TRACKED_REQUEST, offsetof(struct status_request, session), any },
	[ADDRESSES] = { TRACKED_ADDRESS, offsetof(struct status_address, address), any },
	[JOBS] = { TRACKED_JOB, offsetof(struct status_job, id), any },
	[OWNERS] = { TRACKED_OWNER, offsetof(struct status_owner, pid), any },
	[BROKERS] = { TRACKED_BROKER, offsetof(struct status_broker, pid), any },
	[PROGRAMS] = { TRACKED_PROGRAM, offsetof(struct status_program, version), any },
	[TIMES] = { TRACKED_HISTOGRAM, offsetof(struct status_histogram, id), any },
};

static struct sums sums_of(const struct views *views, const union status_record *record)
{
	const union status_record *mapping = record->type == TRACKED_GRANT ? views_mapping_of(views, record) : record;
	struct range grants;

	if (record->type != TRACKED_GRANT && record->type != TRACKED_MAPPING)
		return (struct sums){ 0 };
	grants = view_range(&views->view[OF_MAPPING], mapping->mapping.id);
	return (struct sums){ mapping->mapping.orphaned != 0, mapping->mapping.bytes, grants.end - grants.begin };
}

static size_t count_of(int which, const union status_record *records, size_t count)
{
	size_t found = 0;

	for (size_t i = 0; i < count; i++)
		found += records[i].type == (uint32_t)known[which].type;
	return found;
}

static void view_add_up(const struct views *views, struct view *view)
{
	struct sums sums = { 0 };

	for (size_t i = 0; i < view->count; i++) {
		struct sums one = sums_of(views, view->at[i]);

		view->before[i] = sums;
		sums = (struct sums){ sums.orphaned + one.orphaned, sums.bytes + one.bytes, sums.grants + one.grants };
	}
	view->before[view->count] = sums;
}

/*
 * Makes the view with the index `which`. Until the view is complete, it is empty for the functions that are called
 * here.
 */
static bool view_make(struct views *views, int which, const union status_record *records, size_t count)
{
	size_t most = count_of(which, records, count);
	struct view view = { .at = malloc((most + 1) * sizeof *view.at),
			     .before = malloc((most + 1) * sizeof *view.before),
			     .key = known[which].key };

	views->view[which] = view;
	if (!view.at || !view.before)
		return false;
	for (size_t i = 0; i < count; i++)
		if (records[i].type == (uint32_t)known[which].type && known[which].takes(views, &records[i]))
			view.at[view.count++] = &records[i];
	if (view.count)
		qsort_r(view.at, view.count, sizeof *view.at, compare, &view);
	view_add_up(views, &view);
	views->view[which] = view;
	return true;
}

bool views_make(struct views *views, const union status_record *records, size_t count)
{
	bool made = true;

	memset(views, 0, sizeof *views);
	for (int i = 0; i < VIEWS; i++)
		made = made && view_make(views, i, records, count);
	return made;
}

void views_free(struct views *views)
{
	for (int i = 0; i < VIEWS; i++) {
		free(views->view[i].at);
		free(views->view[i].before);
	}
}

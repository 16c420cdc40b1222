/* SPDX-License-Identifier: Apache-2.0 */
/* trail.c - see trail.h */
#include "trail.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/status/leftovers.h"
#include "common/error.h"

/* ---- reading ---- */

static int header_check(const char *instance, int fd)
{
	struct status_header header;
	struct stat st;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || pread(fd, &header, sizeof header, 0) != sizeof header ||
	    header.magic != STATUS_MAGIC)
		return error_set(-EAGAIN,
				 SHM_DIR STATUS_PREFIX
				 "%s is no status file of a broker, or its broker is only starting",
				 instance);
	if (!status_format_is_known(header.format))
		return error_set(-EBADMSG,
				 "the broker '%s' writes status format %u, and this broker-ctl reads %d: use the one "
				 "that came with the broker",
				 instance, header.format, STATUS_FORMAT);
	return 0;
}

static int compare(const void *a, const void *b)
{
	uint64_t first = ((const struct status_event *)a)->seal.sequence,
		 second = ((const struct status_event *)b)->seal.sequence;

	return (first > second) - (first < second);
}

/* Reads all whole events of the ring whose number is at most `most`. Returns the number of the newest of them. */
static uint64_t read_ring(struct trail *trail, int fd, uint64_t most)
{
	ssize_t got = pread(fd, trail->events, sizeof trail->events, STATUS_RING);
	size_t whole = got > 0 ? (size_t)got / sizeof *trail->events : 0;
	uint64_t newest = 0;

	trail->count = 0;
	for (uint32_t place = 0; place < whole; place++) {
		const struct status_event *event = &trail->events[place];

		if (!status_event_is_good(event, place) || event->seal.sequence > most)
			continue;
		if (event->seal.sequence > newest)
			newest = event->seal.sequence;
		trail->events[trail->count++] = *event;
	}
	return newest;
}

/*
 * Reads the ring twice, and keeps only events of the second reading up to the newest of the first. During one
 * reading, an event may be written before the position that is being read, and a newer one after it, so the older one
 * would be missing. Events up to the newest of the first reading are all written before the second begins, so none is
 * missing between others.
 */
int trail_read(struct trail *trail, const char *instance, int fd)
{
	int error = header_check(instance, fd);

	if (error)
		return error;
	read_ring(trail, fd, read_ring(trail, fd, UINT64_MAX));
	qsort(trail->events, trail->count, sizeof *trail->events, compare);
	return 0;
}

/* ---- showing ---- */

static void event_of(struct broker_event *to, const struct status_event *event)
{
	bool cause = event_rows[event->kind].subject == SUBJECT_CAUSE;

	*to = (struct broker_event){ .kind = event->kind,
				     .error = event->error,
				     .actor = { event->session, event->pid, event->uid, NULL },
				     .other = { event->other_session, event->other_pid, event->other_uid, NULL },
				     .bytes = event->bytes,
				     .detail = event->detail,
				     .left_out = event->left_out,
				     .name = cause ? NULL : event->text,
				     .text = cause && *event->text ? event->text : NULL };
}

const char *trail_text(const struct status_event *event, char text[EVENT_TEXT_MAX])
{
	struct broker_event said;

	event_of(&said, event);
	return event_text(&said, text);
}

static void add_number(json_t *object, const char *key, uint64_t number)
{
	json_object_set_new(object, key, json_integer((json_int_t)number));
}

static void add_text(json_t *object, const char *key, const char *text)
{
	json_object_set_new(object, key, json_string(text));
}

/*
 * Adds an object for a process under the key. jansson also frees a value that it cannot add: if there is no memory,
 * only a key is missing.
 */
static void add_party(json_t *object, const char *key, uint64_t session, uint32_t pid, uint32_t uid)
{
	json_t *party = json_object();

	if (session)
		add_number(party, "session", session);
	if (pid)
		add_number(party, "pid", pid);
	if (session || !pid)
		add_number(party, "user", uid);
	json_object_set_new(object, key, party);
}

json_t *trail_json(const struct status_event *event)
{
	json_t *object = json_object();
	char text[EVENT_TEXT_MAX];

	add_number(object, "version", TRAIL_VERSION);
	add_number(object, "number", event->seal.sequence);
	add_number(object, "time_ms", event->time_ms);
	add_text(object, "kind", event_rows[event->kind].name);
	if (event->error) {
		json_object_set_new(object, "error", json_integer(event->error));
		add_text(object, "reason", event_reason(event->error));
	}
	if (event->session || event->pid)
		add_party(object, "actor", event->session, event->pid, event->uid);
	if (event->other_session || event->other_pid || event->kind == EVENT_CHOWN)
		add_party(object, "other", event->other_session, event->other_pid, event->other_uid);
	if (event_rows[event->kind].subject == SUBJECT_NAME && *event->text)
		add_text(object, "buffer", event->text);
	if (event->bytes)
		add_number(object, "bytes", event->bytes);
	if (event->detail)
		add_number(object, "detail", event->detail);
	if (event->left_out)
		add_number(object, "left_out", event->left_out);
	add_text(object, "text", trail_text(event, text));
	return object;
}

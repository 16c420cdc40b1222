/* SPDX-License-Identifier: Apache-2.0 */
/* event-kinds.c - see event-kinds.h */
#include "event-kinds.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/size.h"

const struct event_row event_rows[EVENT_KINDS] = {
#define EVENT_ROW(id, name, part, level, lines, subject, text) { name, part, level, lines, subject, text },
	EVENTS_KNOWN(EVENT_ROW)
#undef EVENT_ROW
};

static const struct {
	int         error;
	const char *word, *text;
	bool        ordinary;
} reasons[EVENT_REASONS] = {
	{ 0, "", "", false },
	{ EACCES, "permission", "it may not do that", false },
	{ EPERM, "owner", "the buffer is not the owner's that was expected", false },
	{ EDQUOT, "quota", "it is over a quota", false },
	{ ENOMEM, "memory", "there is no memory for it", false },
	{ EEXIST, "name", "the name is taken", true },
	{ EINVAL, "invalid", "the request makes no sense", true },
	{ ENAMETOOLONG, "invalid", "the name is too long", true },
	{ ENOENT, "missing", "there is none", true },
	{ ETIMEDOUT, "time", "its time was over", true },
	{ EBUSY, "busy", "others use the same memory", true },
	{ ECONNREFUSED, "stopping", "the broker is stopping", true },
	{ EIO, "other", "for another reason", false },
};

unsigned event_reason_number(int error)
{
	unsigned i = 0;

	while (i < EVENT_REASONS - 1 && reasons[i].error != -error)
		i++;
	return i;
}

int event_reason_error(unsigned number)
{
	return -reasons[number].error;
}

const char *event_reason(int error)
{
	return reasons[event_reason_number(error)].word;
}

bool event_is_ordinary(int error)
{
	return reasons[event_reason_number(error)].ordinary;
}

int event_find(const char *name)
{
	for (int i = 0; i < EVENT_KINDS; i++)
		if (!strcmp(event_rows[i].name, name))
			return i;
	return -1;
}

/* ---- how it reads ---- */

struct writer {
	char  *text;
	size_t length;
};

static void add(struct writer *writer, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends formatted text, cut off at EVENT_TEXT_MAX - 1 bytes. */
static void add(struct writer *writer, const char *format, ...)
{
	size_t room = EVENT_TEXT_MAX - writer->length;
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(writer->text + writer->length, room, format, args);
	va_end(args);
	if (length > 0)
		writer->length += (size_t)length < room ? (size_t)length : room - 1;
}

/* Appends the fields of the party that are set: "session 4 (pid 12, heat, uid 1000)". */
static void add_party(struct writer *writer, const struct event_party *party)
{
	const char *between = "";

	if (!party->session && !party->pid) {
		add(writer, "the broker");
		return;
	}
	if (party->session)
		add(writer, "session %llu (", (unsigned long long)party->session);
	if (party->pid) {
		add(writer, "pid %u", party->pid);
		between = ", ";
	}
	if (party->command)
		add(writer, "%s%s", between, party->command);
	if (party->session)
		add(writer, "%suid %u)", between, party->uid);
}

static void add_part(struct writer *writer, const struct broker_event *event, char what)
{
	char size[SIZE_TEXT_MAX];

	switch (what) {
	case 'a':
		add_party(writer, &event->actor);
		break;
	case 'o':
		add_party(writer, &event->other);
		break;
	case 'u':
		add(writer, "%u", event->other.uid);
		break;
	case 'n':
		add(writer, "'%s'", event->name ? event->name : "");
		break;
	case 'b':
		add(writer, "%s", size_format(event->bytes, size));
		break;
	case 'd':
		add(writer, "%u", event->detail);
		break;
	case 'm':
		add(writer, "%04o", event->detail);
		break;
	default:
		add(writer, "%s", event->text ? event->text : reasons[event_reason_number(event->error)].text);
	}
}

static void add_all(struct writer *writer, const struct broker_event *event, const char *text)
{
	while (*text) {
		int plain = (int)strcspn(text, "%");

		add(writer, "%.*s", plain, text);
		text += plain;
		if (*text) {
			add_part(writer, event, text[1]);
			text += 2;
		}
	}
}

/* Replaces bytes that are not printable ASCII: clients choose parts of the text, which goes to terminals and logs. */
static void make_printable(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

const char *event_text(const struct broker_event *event, char text[EVENT_TEXT_MAX])
{
	struct writer writer = { text, 0 };

	*text = 0;
	if (event->left_out) {
		add(&writer, "%s%s%s%s: %u more like this %s left out within a minute", event_rows[event->kind].name,
		    event->error ? " (" : "", event_reason(event->error), event->error ? ")" : "", event->left_out,
		    event->left_out == 1 ? "was" : "were");
	} else {
		add_all(&writer, event, event_rows[event->kind].text);
	}
	if (!*text)
		add(&writer, "%s", event_rows[event->kind].name);
	make_printable(text);
	return text;
}

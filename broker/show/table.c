/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - see table.h */
#include "table.h"

#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "broker/base/counters.h"
#include "common/size.h"
#include "read.h"

#define LINE       80
#define NUMBER_MAX 21 /* digits of a 64-bit number, with the zero */
#define USER_MAX   33

/* ---- lines and columns ---- */

/* Makes text fit: cut in the middle, where names of a kind differ least, and every byte printable. */
static void fit(char out[LINE + 1], const char *text, size_t width)
{
	size_t length = strlen(text), kept = width - 3;

	if (length <= width)
		strcpy(out, text);
	else
		sprintf(out, "%.*s...%s", (int)((kept + 1) / 2), text, text + length - kept / 2);
	for (; *out; out++)
		if (*out < ' ' || *out > '~')
			*out = '?';
}

static void print_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void print_line(const char *format, ...)
{
	char text[512], line[LINE + 1];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	fit(line, text, LINE);
	puts(line);
}

struct column {
	const char *title;
	int         width; /* those of a table and 2 for each gap: at most LINE */
	bool        right;
};

static void print_row(const struct column *columns, size_t count, const char *const *cells)
{
	char line[LINE + 3] = "", cell[LINE + 1];
	size_t end = 0;

	for (size_t i = 0; i < count; i++) {
		fit(cell, cells[i], (size_t)columns[i].width);
		end += (size_t)sprintf(line + end, columns[i].right ? "%*s  " : "%-*s  ", columns[i].width, cell);
	}
	while (end && line[end - 1] == ' ')
		line[--end] = 0;
	puts(line);
}

static void print_titles(const struct column *columns, size_t count)
{
	const char *titles[8];

	for (size_t i = 0; i < count; i++)
		titles[i] = columns[i].title;
	print_row(columns, count, titles);
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- what stands in the text, or stands there wrongly ---- */

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "?";
}

static uint64_t number_of(const json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

static const char *digits_of(const json_t *object, const char *key, char text[NUMBER_MAX])
{
	snprintf(text, NUMBER_MAX, "%llu", (unsigned long long)number_of(object, key));
	return text;
}

static const char *size_of(const json_t *object, const char *key, char text[SIZE_TEXT_MAX])
{
	return size_format(number_of(object, key), text);
}

static const char *user_name(uint64_t uid, char text[USER_MAX])
{
	const struct passwd *user = uid < (uid_t)-1 ? getpwuid((uid_t)uid) : NULL;

	if (user)
		snprintf(text, USER_MAX, "%s", user->pw_name);
	else
		snprintf(text, USER_MAX, "%llu", (unsigned long long)uid);
	return text;
}

static const char *time_text(const json_t *object, const char *key, char text[20])
{
	time_t when = (time_t)number_of(object, key);
	struct tm parts;

	if (!localtime_r(&when, &parts) || !strftime(text, 20, "%Y-%m-%d %H:%M:%S", &parts))
		strcpy(text, "?");
	return text;
}

/* ---- one broker ---- */

static void print_state(const struct shown *shown)
{
	unsigned long long pid = shown->header.pid;
	char when[20];

	print_line("broker %s: %s, pid %llu, status of %s", shown->instance, shown_state_name(shown->state), pid,
		   time_text(shown->text, "updated", when));
	if (shown->state == SHOWN_STOPPED)
		print_line("It was stopped by a signal and serves nobody until: kill -CONT %llu", pid);
	if (shown->state == SHOWN_DEAD)
		print_line("Its process is gone; the next broker of its user removes what it left.");
}

static void print_doubt(const struct shown *shown)
{
	char owner[USER_MAX];

	if (!shown->trusted)
		print_line("The status file of '%s' may be anybody's word: its owner is %s.", shown->instance,
			   user_name(shown->owner, owner));
	if (shown->unreadable)
		print_line("The file is damaged: %zu of its records cannot be read.", shown->unreadable);
}

static void print_head(const struct shown *shown)
{
	char owner[USER_MAX];

	print_state(shown);
	print_doubt(shown);
	print_line("user %s, device kind %s, %llu waiting request%s%s", user_name(shown->owner, owner),
		   text_of(shown->text, "device_kind"), (unsigned long long)number_of(shown->text, "waiting"),
		   PLURAL(number_of(shown->text, "waiting")),
		   json_is_true(json_object_get(shown->text, "stopping")) ? ", stopping: no new buffers" : "");
}

static const struct column device_columns[] = {
	{ "DEV", 3, true }, { "NAME", 24, false }, { "MEMORY", 10, true }, { "UUID", 36, false }
};

/* Only where there is any: a line has no room for two more columns. */
static void print_kept(const json_t *device)
{
	uint64_t idle = number_of(device, "idle"), pooled = number_of(device, "pooled");
	char idle_text[SIZE_TEXT_MAX], pooled_text[SIZE_TEXT_MAX];

	if (idle || pooled)
		print_line("    kept for later buffers: %s idle and still mapped, %s in the pool",
			   size_format(idle, idle_text), size_format(pooled, pooled_text));
}

static void print_devices(const json_t *devices)
{
	char index[NUMBER_MAX], bytes[SIZE_TEXT_MAX];
	json_t *device;
	size_t i;

	putchar('\n');
	print_titles(device_columns, COUNT(device_columns));
	json_array_foreach(devices, i, device) {
		const char *cells[] = { digits_of(device, "index", index), text_of(device, "name"),
					size_of(device, "bytes", bytes), text_of(device, "uuid") };

		print_row(device_columns, COUNT(cells), cells);
		print_kept(device);
	}
}

const char *table_holder(const json_t *holder, char text[TABLE_HOLDER_MAX])
{
	unsigned long long pid = number_of(holder, "pid"), device = number_of(holder, "device");
	const char *command = text_of(holder, "command");
	char whole[512];

	if (json_is_true(json_object_get(holder, "held")))
		snprintf(whole, sizeof whole, "closed, waits for pid %llu (%s) to die", pid, command);
	else
		snprintf(whole, sizeof whole, "waits for pid %llu (%s), which maps it on device %llu", pid, command, device);
	fit(text, whole, TABLE_HOLDER_MAX - 1);
	return text;
}

/* Whom a drain waits for: those that the file lists, and how many more it counts. */
static void print_holders(const json_t *buffer)
{
	const json_t *holders = json_object_get(buffer, "holders");
	uint64_t count = number_of(buffer, "grants") + number_of(buffer, "held"), listed = json_array_size(holders);
	char text[TABLE_HOLDER_MAX];
	json_t *holder;
	size_t i;

	json_array_foreach(holders, i, holder)
		print_line("    %s", table_holder(holder, text));
	if (count > listed)
		print_line("    and for %llu more", (unsigned long long)(count - listed));
}

static const struct column buffer_columns[] = { { "BUFFER", 22, false },  { "SIZE", 10, true },
						{ "DEV", 3, true },	  { "STATE", 8, false },
						{ "OWNER", 9, false },	  { "GRANTS", 6, true },
						{ "GENERATION", 10, true } };

/* "1", or "1+2" where so many more were closed and are orphaned until a process dies. */
static const char *grants_of(const json_t *buffer, char text[2 * NUMBER_MAX])
{
	unsigned long long open = number_of(buffer, "grants"), orphaned = number_of(buffer, "held");

	if (orphaned)
		snprintf(text, 2 * NUMBER_MAX, "%llu+%llu", open, orphaned);
	else
		snprintf(text, 2 * NUMBER_MAX, "%llu", open);
	return text;
}

static void print_buffer(const json_t *buffer)
{
	char bytes[SIZE_TEXT_MAX], device[NUMBER_MAX], owner[USER_MAX], grants[2 * NUMBER_MAX], generation[NUMBER_MAX];
	const char *cells[] = { text_of(buffer, "name"),
				size_of(buffer, "bytes", bytes),
				digits_of(buffer, "device", device),
				text_of(buffer, "state"),
				user_name(number_of(buffer, "owner"), owner),
				grants_of(buffer, grants),
				digits_of(buffer, "generation", generation) };

	print_row(buffer_columns, COUNT(cells), cells);
	if (!strcmp(text_of(buffer, "state"), "draining"))
		print_holders(buffer);
}

static void print_buffers(const json_t *buffers)
{
	json_t *buffer;
	size_t i;

	putchar('\n');
	print_titles(buffer_columns, COUNT(buffer_columns));
	json_array_foreach(buffers, i, buffer)
		print_buffer(buffer);
}

static const struct column session_columns[] = { { "SESSION", 10, true }, { "PID", 8, true },
						 { "USER", 9, false },	  { "COMMAND", 15, false },
						 { "STATE", 8, false },	  { "GRANTS", 6, true },
						 { "SIZE", 10, true } };

static void print_session(const json_t *session)
{
	char id[NUMBER_MAX], pid[NUMBER_MAX], user[USER_MAX], grants[NUMBER_MAX], bytes[SIZE_TEXT_MAX];
	const char *cells[] = { digits_of(session, "session", id),
				digits_of(session, "pid", pid),
				user_name(number_of(session, "uid"), user),
				text_of(session, "command"),
				text_of(session, "state"),
				digits_of(session, "grants", grants),
				size_of(session, "bytes", bytes) };

	print_row(session_columns, COUNT(cells), cells);
}

static void print_sessions(const json_t *sessions)
{
	json_t *session;
	size_t i;

	putchar('\n');
	print_titles(session_columns, COUNT(session_columns));
	json_array_foreach(sessions, i, session)
		print_session(session);
}

/* ---- users ---- */

/* Resources that a user holds and a quota bounds: 9 columns for the user, and 2 for each gap. */
static const struct {
	const char   *key;
	bool          bytes;
	struct column column;
} resources[] = {
	{ "bytes", true, { "MEMORY", 16, true } },	{ "buffers", false, { "BUFFERS", 9, true } },
	{ "sessions", false, { "SESSIONS", 8, true } }, { "grants", false, { "GRANTS", 11, true } },
	{ "tickets", false, { "TICKETS", 7, true } },	{ "requests", false, { "REQUESTS", 8, true } },
};

#define RESOURCE_COLUMNS COUNT(resources)

/* As short as it can be told: "1.5G" is read as easily as "1.5 GiB", and there are two of them in a cell. */
static const char *amount_text(uint64_t amount, bool bytes, char text[NUMBER_MAX])
{
	char size[SIZE_TEXT_MAX], *blank;

	snprintf(text, NUMBER_MAX, "%llu", (unsigned long long)amount);
	if (!bytes)
		return text;
	blank = strchr(strcpy(text, size_format(amount, size)), ' ');
	blank[0] = blank[1];
	blank[1] = 0;
	return text;
}

/* What of it is used, and behind a slash the quota, if there is one. Requests are counted by the second. */
static void resource_text(const json_t *user, size_t i, char cell[2 * NUMBER_MAX + 2])
{
	const json_t *quota = json_object_get(json_object_get(user, "quota"), resources[i].key);
	const json_t *used = json_object_get(json_object_get(user, "used"), resources[i].key);
	char limit[NUMBER_MAX] = "", amount[NUMBER_MAX] = "";

	if (quota)
		amount_text((uint64_t)json_integer_value(quota), resources[i].bytes, limit);
	if (used)
		amount_text((uint64_t)json_integer_value(used), resources[i].bytes, amount);
	if (used)
		sprintf(cell, "%s%s%s", amount, quota ? "/" : "", limit);
	else
		sprintf(cell, "%s%s", quota ? limit : "-", quota ? "/s" : "");
}

static void print_user(const struct column *columns, const json_t *user)
{
	char name[USER_MAX], text[RESOURCE_COLUMNS][2 * NUMBER_MAX + 2];
	const char *cells[RESOURCE_COLUMNS + 1] = { user_name(number_of(user, "uid"), name) };

	for (size_t i = 0; i < RESOURCE_COLUMNS; i++) {
		resource_text(user, i, text[i]);
		cells[i + 1] = text[i];
	}
	print_row(columns, COUNT(cells), cells);
}

/* Greetings are bounded for everybody, and nobody is interested. */
static bool user_is_bounded(const json_t *user)
{
	for (size_t i = 0; i < RESOURCE_COLUMNS; i++)
		if (json_object_get(json_object_get(user, "quota"), resources[i].key))
			return true;
	return false;
}

static bool users_matter(const json_t *users)
{
	json_t *user;
	size_t i;

	json_array_foreach(users, i, user)
		if (user_is_bounded(user))
			return true;
	return json_array_size(users) > 1;
}

static void print_users(const json_t *users, bool all)
{
	struct column columns[RESOURCE_COLUMNS + 1] = { { "USER", 9, false } };
	json_t *user;
	size_t i;

	if (!all && !users_matter(users))
		return;
	for (i = 0; i < RESOURCE_COLUMNS; i++)
		columns[i + 1] = resources[i].column;
	putchar('\n');
	print_titles(columns, COUNT(columns));
	json_array_foreach(users, i, user)
		print_user(columns, user);
}

/* ---- counters ---- */

static void print_counters(const json_t *counters, bool all)
{
	static const struct {
		const char *key, *text;
	} known[] = {
#define COUNTER_ROW(name, text) { #name, text },
		COUNTERS(COUNTER_ROW)
#undef COUNTER_ROW
	};
	char digits[NUMBER_MAX];

	printf("\n%*s  %s\n", NUMBER_MAX - 1, "COUNT", "OF");
	for (size_t i = 0; i < COUNT(known); i++)
		if (all || number_of(counters, known[i].key))
			print_line("%*s  %s", NUMBER_MAX - 1, digits_of(counters, known[i].key, digits),
				   known[i].text);
}

void table_show(const struct shown *shown, bool all)
{
	print_head(shown);
	print_devices(json_object_get(shown->text, "devices"));
	print_buffers(json_object_get(shown->text, "buffers"));
	print_sessions(json_object_get(shown->text, "sessions"));
	print_users(json_object_get(shown->text, "users"), all);
	print_counters(json_object_get(shown->text, "counters"), all);
}

/* ---- the list ---- */

static const struct column list_columns[] = { { "INSTANCE", 20, false }, { "PID", 8, true },
					      { "DEVICE", 6, false },	 { "BUFFERS", 7, true },
					      { "SESSIONS", 8, true },	 { "STATE", 10, false },
					      { "OWNER", 9, false } };

static void print_listed(const struct shown *shown)
{
	char pid[NUMBER_MAX], buffers[NUMBER_MAX], sessions[NUMBER_MAX], owner[USER_MAX];
	const char *cells[] = { shown->instance,
				pid,
				text_of(shown->text, "device_kind"),
				buffers,
				sessions,
				shown_state_name(shown->state),
				user_name(shown->owner, owner) };

	snprintf(pid, sizeof pid, "%llu", (unsigned long long)shown->header.pid);
	snprintf(buffers, sizeof buffers, "%zu", json_array_size(json_object_get(shown->text, "buffers")));
	snprintf(sessions, sizeof sessions, "%zu", json_array_size(json_object_get(shown->text, "sessions")));
	print_row(list_columns, COUNT(cells), cells);
	print_doubt(shown);
}

/* The error message of why goes to stderr: broker-status.c. */
static void print_unreadable(const struct shown *shown)
{
	const char *cells[] = { shown->instance, "?", "?", "?", "?", shown_state_name(shown->state), "?" };

	print_row(list_columns, COUNT(cells), cells);
}

void table_list(const struct shown *shown, size_t before)
{
	if (!before)
		print_titles(list_columns, COUNT(list_columns));
	if (shown->state == SHOWN_UNREADABLE)
		print_unreadable(shown);
	else
		print_listed(shown);
}

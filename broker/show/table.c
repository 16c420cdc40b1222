/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - see table.h */
#include "table.h"

#include <grp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "broker/base/counters.h"
#include "common/size.h"
#include "owner-lines.h"

#define NUMBER_MAX 21  /* bytes of a 64-bit number in decimal, with the NUL */
#define HOLDERS_MAX 64 /* largest number of lines with holders of one buffer */

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- the paper ---- */

static bool is_colored(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return !(no && *no) && term && *term && strcmp(term, "dumb");
}

struct paper table_paper(void)
{
	struct winsize size = { 0 };

	if (!isatty(STDOUT_FILENO))
		return (struct paper){ .now = time(NULL) };
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col)
		size.ws_col = 80;
	return (struct paper){ .width = size.ws_col, .color = is_colored(), .now = time(NULL) };
}

/* ---- lines ---- */

static const char *const tones[] = { [TONE_PLAIN] = "", [TONE_WARNING] = "33", [TONE_ALARM] = "31" };

static void print_colored(const struct paper *paper, const char *color, const char *line)
{
	if (paper->color && *color)
		printf("\033[%sm%s\033[m\n", color, line);
	else
		puts(line);
}

static void print_line(const struct paper *paper, enum tone tone, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void print_line(const struct paper *paper, enum tone tone, const char *format, ...)
{
	char text[1024], line[sizeof text];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	text_fit(line, sizeof line, text, paper->width);
	print_colored(paper, tones[tone], line);
}

static void print_grid(const struct grid *grid)
{
	char line[GRID_LINE_MAX];

	grid_heading(grid, line);
	print_colored(&grid->paper, "1", line);
	for (size_t row = 0; row < grid->rows_count; row++) {
		grid_line(grid, row, line);
		print_colored(&grid->paper, tones[grid_tone(grid, row)], line);
	}
}

/* ---- one broker ---- */

static const char *time_text(const json_t *object, const char *key, char text[20])
{
	time_t when = (time_t)json_number(object, key);
	struct tm parts;

	if (!localtime_r(&when, &parts) || !strftime(text, 20, "%Y-%m-%d %H:%M:%S", &parts))
		strcpy(text, "?");
	return text;
}

static void print_state(const struct shown *shown, const struct paper *paper)
{
	const char *version = shown_version(shown);
	unsigned long long pid = shown->header.pid;
	char when[20];

	print_line(paper, shown->state == SHOWN_RUNNING ? TONE_PLAIN : TONE_ALARM,
		   "broker %s: %s, pid %llu, status of %s%s%s", shown->instance, shown_state_name(shown->state), pid,
		   time_text(shown->text, "updated", when), version ? ", gpubroker " : "", version ? version : "");
	if (shown->state == SHOWN_STOPPED)
		print_line(paper, TONE_ALARM, "It was stopped by a signal and serves nobody until: kill -CONT %llu",
			   (unsigned long long)shown_process(shown));
	if (shown->state == SHOWN_DEAD)
		print_line(paper, TONE_ALARM, "Its process is gone; the next broker of its user removes what it left.");
}

static void print_doubt(const struct paper *paper, const char *instance, bool trusted, uint64_t owner,
			uint64_t unreadable)
{
	char name[USER_TEXT_MAX];

	if (!trusted)
		print_line(paper, TONE_ALARM, "The status file of '%s' may be anybody's word: its owner is %s.",
			   instance, user_text(owner, name));
	if (unreadable)
		print_line(paper, TONE_ALARM, "The file is damaged: %llu of its records cannot be read.",
			   (unsigned long long)unreadable);
}

static void print_owner(const struct shown *shown, const struct paper *paper)
{
	struct owner_line lines[OWNER_LINES_MAX];
	size_t count = owner_lines(shown, lines);

	for (size_t i = 0; i < count; i++)
		print_line(paper, lines[i].tone, "%s", lines[i].text);
}

static void print_head(const struct shown *shown, const struct paper *paper)
{
	unsigned long long waiting = json_number(shown->text, "waiting");
	const json_t *job = json_object_get(shown->text, "job");
	char owner[USER_TEXT_MAX], requests[48] = "";

	if (shown->partial)
		print_line(paper, TONE_WARNING,
			   "Your own objects: the status file, with everybody's, is not for this user.");
	else
		snprintf(requests, sizeof requests, ", %llu waiting request%s", waiting, PLURAL(waiting));
	print_state(shown, paper);
	print_doubt(paper, shown->instance, shown->trusted, shown->owner, shown->unreadable);
	print_line(paper, TONE_PLAIN, "user %s, device kind %s%s%s", user_text(shown->owner, owner),
		   json_text(shown->text, "device_kind"), requests,
		   json_is_true(json_object_get(shown->text, "stopping")) ? ", stopping: no new buffers" : "");
	if (shown_address(shown))
		print_line(paper, TONE_PLAIN, "listens at %s", shown_address(shown));
	if (job)
		print_line(paper, TONE_PLAIN, "job %s of %s", json_text(job, "id"), json_text(job, "launcher"));
	print_owner(shown, paper);
}

#define PROCESS_MAX 64

/* Writes a holder's process to text: "812 (worker)", or "812 of bob" if the broker does not show the command. */
static const char *process_text(const json_t *holder, char text[PROCESS_MAX])
{
	unsigned long long pid = json_number(holder, "pid");
	const char *command = json_text(holder, "command");
	char user[USER_TEXT_MAX];

	if (*command)
		snprintf(text, PROCESS_MAX, "%llu (%s)", pid, command);
	else
		snprintf(text, PROCESS_MAX, "%llu of %s", pid, user_text(json_number(holder, "uid"), user));
	return text;
}

const char *table_holder(const json_t *holder, char text[TABLE_HOLDER_MAX])
{
	unsigned long long device = json_number(holder, "device");
	char whole[512], process[PROCESS_MAX];

	process_text(holder, process);
	if (json_is_true(json_object_get(holder, "held")))
		snprintf(whole, sizeof whole, "closed, waits for pid %s to die", process);
	else
		snprintf(whole, sizeof whole, "waits for pid %s, which maps it on device %llu", process, device);
	text_fit(text, TABLE_HOLDER_MAX, whole, TABLE_HOLDER_MAX - 1);
	return text;
}

/* Prints a line for each listed holder that the drain of a buffer waits for, and one with the number of the others. */
static void print_drain(const json_t *buffer, const struct paper *paper)
{
	uint64_t count = json_number(buffer, "grants") + json_number(buffer, "held"), listed = 0;
	char name[CELL_MAX], text[TABLE_HOLDER_MAX];
	json_t *holder;
	size_t i;

	text_fit(name, sizeof name, json_text(buffer, "name"), paper->width / 3);
	json_array_foreach (json_object_get(buffer, "holders"), i, holder) {
		if (listed == HOLDERS_MAX)
			break;
		listed++;
		print_line(paper, TONE_WARNING, "%.100s: %s", name, table_holder(holder, text));
	}
	if (count > listed)
		print_line(paper, TONE_WARNING, "%.100s: and for %llu more", name,
			   (unsigned long long)(count - listed));
}

static void print_drains(const struct grid *buffers)
{
	bool any = false;

	for (size_t i = 0; i < buffers->rows_count; i++) {
		if (strcmp(json_text(buffers->rows[i], "state"), "draining"))
			continue;
		if (!any)
			putchar('\n');
		any = true;
		print_drain(buffers->rows[i], &buffers->paper);
	}
}

/*
 * Returns true if the user has a quota that a column shows. Other quotas, such as that of greetings, all users have by
 * default.
 */
static bool user_is_bounded(const json_t *user)
{
	for (size_t i = 0; i < columns_count; i++)
		if (columns[i].table == TABLE_USERS && json_object_get(json_object_get(user, "quota"), columns[i].key))
			return true;
	return false;
}

static bool users_matter(const json_t *users)
{
	json_t *user;
	size_t i;

	json_array_foreach (users, i, user)
		if (user_is_bounded(user))
			return true;
	return json_array_size(users) > 1;
}

static void print_counters(const json_t *counters, const struct table_options *options)
{
	static const struct {
		const char *key, *text;
	} known[] = {
#define COUNTER_ROW(name, text) { #name, text },
		COUNTERS(COUNTER_ROW)
#undef COUNTER_ROW
	};

	putchar('\n');
	print_line(&options->paper, TONE_PLAIN, "%*s  %s", NUMBER_MAX - 1, "COUNT", "OF");
	for (size_t i = 0; i < COUNT(known); i++)
		if (options->all || json_number(counters, known[i].key))
			print_line(&options->paper, TONE_PLAIN, "%*llu  %s", NUMBER_MAX - 1,
				   (unsigned long long)json_number(counters, known[i].key), known[i].text);
}

static bool is_filtered(const struct selection *selection)
{
	return selection->of_user || selection->of_device || selection->of_holder;
}

/*
 * Returns true if the table is to be printed: the selection has columns of it, and the filters and options do not
 * leave it out.
 */
static bool table_matters(enum table_kind table, const json_t *rows, const struct table_options *options)
{
	const struct selection *selection = &options->selection;

	if (!selection_has(selection, table))
		return false;
	if (table == TABLE_DEVICES && (selection->of_user || selection->of_holder))
		return false;
	if (table == TABLE_USERS && (selection->of_device || selection->of_holder))
		return false;
	return table != TABLE_USERS || options->all || selection->columns_count || users_matter(rows);
}

static int print_table(enum table_kind table, const json_t *text, const struct table_options *options, size_t *rows)
{
	const json_t *array = json_object_get(text, table_name(table));
	struct grid grid;
	int error;

	if (!table_matters(table, array, options))
		return 0;
	error = grid_make(&grid, table, array, &options->selection, &options->paper);
	if (error)
		return error;
	if (grid.rows_count || !is_filtered(&options->selection)) {
		if (*rows || !options->selection.columns_count || options->head)
			putchar('\n');
		print_grid(&grid);
		*rows += 1 + grid.rows_count;
	}
	if (table == TABLE_BUFFERS && !options->selection.columns_count)
		print_drains(&grid);
	grid_free(&grid);
	return 0;
}

int table_show(const struct shown *shown, const struct table_options *options)
{
	const struct selection *selection = &options->selection;
	size_t rows = 0;
	int error = 0;

	if (!selection->columns_count || options->head)
		print_head(shown, &options->paper);
	for (int table = TABLE_DEVICES; table < TABLES && !error; table++)
		error = print_table((enum table_kind)table, shown->text, options, &rows);
	if (error)
		return error;
	if (!rows && is_filtered(selection))
		print_line(&options->paper, TONE_PLAIN, "It has nothing of that user, device or holder.");
	if (!shown->partial && !selection->columns_count && (options->all || !is_filtered(selection)))
		print_counters(json_object_get(shown->text, "counters"), options);
	return 0;
}

/* ---- parts of one broker ---- */

int table_rows_show(enum table_kind table, const json_t *rows, const struct table_options *options)
{
	struct grid grid;
	int error = grid_make(&grid, table, rows, &options->selection, &options->paper);

	if (error)
		return error;
	print_grid(&grid);
	if (table == TABLE_BUFFERS)
		print_drains(&grid);
	grid_free(&grid);
	return 0;
}

static const char *group_text(uint64_t gid, char text[USER_TEXT_MAX])
{
	const struct group *group = gid < (gid_t)-1 ? getgrgid((gid_t)gid) : NULL;

	if (group)
		snprintf(text, USER_TEXT_MAX, "%s", group->gr_name);
	else
		snprintf(text, USER_TEXT_MAX, "%llu", (unsigned long long)gid);
	return text;
}

static void print_property(const struct paper *paper, const char *title, const char *text)
{
	print_line(paper, TONE_PLAIN, "  %-11s %s", title, text);
}

static void print_number(const struct paper *paper, const json_t *buffer, const char *key)
{
	print_line(paper, TONE_PLAIN, "  %-11s %llu", key, (unsigned long long)json_number(buffer, key));
}

static void print_size(const struct paper *paper, const json_t *buffer, const char *title, const char *key)
{
	char bytes[SIZE_TEXT_MAX];

	print_property(paper, title, size_format(json_number(buffer, key), bytes));
}

static void print_flags(const struct paper *paper, const json_t *buffer)
{
	static const char *const flags[] = { "ephemeral", "timeline", "alone" };

	for (size_t i = 0; i < COUNT(flags); i++)
		if (json_is_true(json_object_get(buffer, flags[i])))
			print_property(paper, flags[i], "yes");
}

static void print_grants(const struct paper *paper, const json_t *buffer)
{
	unsigned long long open = json_number(buffer, "grants"), orphaned = json_number(buffer, "held");
	char text[2 * NUMBER_MAX];

	snprintf(text, sizeof text, orphaned ? "%llu+%llu" : "%llu", open, orphaned);
	print_property(paper, "grants", text);
}

static void print_holders(const struct paper *paper, const json_t *buffer)
{
	uint64_t count = json_number(buffer, "grants") + json_number(buffer, "held"), listed = 0;
	char process[PROCESS_MAX];
	json_t *holder;
	size_t i;

	json_array_foreach (json_object_get(buffer, "holders"), i, holder) {
		if (listed == HOLDERS_MAX)
			break;
		listed++;
		print_line(paper, TONE_PLAIN, "  %-11s pid %s, session %llu, on device %llu%s", "held by",
			   process_text(holder, process), (unsigned long long)json_number(holder, "session"),
			   (unsigned long long)json_number(holder, "device"),
			   json_is_true(json_object_get(holder, "held")) ? ", closed: until it dies" : "");
	}
	if (count > listed)
		print_line(paper, TONE_PLAIN, "  %-11s %llu more", "and by", (unsigned long long)(count - listed));
}

/* Prints the buffer's name whole, even if it is longer than a line. */
void table_whole_buffer(const json_t *buffer, const struct paper *paper)
{
	char text[CELL_MAX];

	text_fit(text, sizeof text, json_text(buffer, "name"), 0);
	puts(text);
	print_property(paper, "state", json_text(buffer, "state"));
	print_size(paper, buffer, "size", "bytes");
	print_size(paper, buffer, "allocated", "allocated");
	if (json_object_get(buffer, "reserve"))
		print_size(paper, buffer, "reserve", "reserve");
	print_number(paper, buffer, "device");
	print_property(paper, "owner", user_text(json_number(buffer, "owner"), text));
	print_property(paper, "group", group_text(json_number(buffer, "group"), text));
	snprintf(text, sizeof text, "%04o", (unsigned)json_number(buffer, "mode"));
	print_property(paper, "mode", text);
	print_flags(paper, buffer);
	print_number(paper, buffer, "generation");
	print_grants(paper, buffer);
	print_holders(paper, buffer);
}

/* ---- the list ---- */

static uint64_t memory_used(const json_t *devices)
{
	uint64_t used = 0;
	json_t *device;
	size_t i;

	json_array_foreach (devices, i, device)
		used += json_number(device, "used");
	return used;
}

void table_list_add(json_t *rows, const struct shown *shown)
{
	json_t *row = json_pack("{s:s,s:s}", "instance", shown->instance, "state", shown_state_name(shown->state));

	if (shown->state != SHOWN_UNREADABLE) {
		json_object_set_new(row, "pid", json_integer((json_int_t)shown->header.pid));
		json_object_set_new(row, "device_kind", json_string(json_text(shown->text, "device_kind")));
		json_object_set_new(row, "used",
				    json_integer((json_int_t)memory_used(json_object_get(shown->text, "devices"))));
		json_object_set_new(row, "buffers",
				    json_integer((json_int_t)json_array_size(json_object_get(shown->text, "buffers"))));
		json_object_set_new(row, "sessions",
				    json_integer((json_int_t)json_array_size(json_object_get(shown->text,
											     "sessions"))));
		json_object_set_new(row, "owner", json_integer(shown->owner));
		json_object_set(row, "address", json_object_get(shown->text, "address"));
		json_object_set(row, "job", json_object_get(json_object_get(shown->text, "job"), "id"));
		json_object_set_new(row, "trusted", json_boolean(shown->trusted));
		json_object_set_new(row, "unreadable", json_integer((json_int_t)shown->unreadable));
	}
	json_array_append_new(rows, row);
}

/* Does not say why a broker cannot be read: broker-status.c prints that on stderr. */
int table_list_show(const json_t *rows, const struct table_options *options)
{
	struct grid grid;
	int error;

	if (!json_array_size(rows))
		return 0;
	error = grid_make(&grid, TABLE_BROKERS, rows, &options->selection, &options->paper);
	if (error)
		return error;
	print_grid(&grid);
	for (size_t i = 0; i < grid.rows_count; i++)
		print_doubt(&options->paper, json_text(grid.rows[i], "instance"),
			    !json_is_false(json_object_get(grid.rows[i], "trusted")),
			    json_number(grid.rows[i], "owner"), json_number(grid.rows[i], "unreadable"));
	grid_free(&grid);
	return 0;
}

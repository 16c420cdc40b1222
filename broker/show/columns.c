/* SPDX-License-Identifier: Apache-2.0 */
/* columns.c - see columns.h */
#include "columns.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "common/error.h"
#include "common/size.h"

#define LISTED_MAX 64 /* largest number of words of a list in one cell; "+N" says how many more there are */

/* ---- what stands in a row, or stands there wrongly ---- */

const char *json_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "?";
}

uint64_t json_number(const json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

/*
 * Keeps the names looked up last in a cache, because a table has a user in each row, and getpwuid(3) may ask a server.
 */
const char *user_text(uint64_t uid, char text[USER_TEXT_MAX])
{
	static struct {
		uint64_t uid;
		char     name[USER_TEXT_MAX];
	} known[64], *entry;
	const struct passwd *user;

	entry = &known[uid % 64];
	if (entry->uid != uid || !*entry->name) {
		user = uid < (uid_t)-1 ? getpwuid((uid_t)uid) : NULL;
		entry->uid = uid;
		if (user)
			snprintf(entry->name, sizeof entry->name, "%s", user->pw_name);
		else
			snprintf(entry->name, sizeof entry->name, "%llu", (unsigned long long)uid);
	}
	return strcpy(text, entry->name);
}

void text_fit(char *out, size_t size, const char *text, size_t width)
{
	size_t length = strlen(text), begin, end;

	if (!width || width >= size)
		width = size - 1;
	begin = width > 3 ? (width - 2) / 2 : width;
	end = width > 3 ? (width - 3) / 2 : 0;
	if (length <= width) {
		memmove(out, text, length + 1);
	} else {
		memmove(out, text, begin);
		memmove(out + width - end, text + length - end, end);
		memset(out + begin, '.', width - end - begin);
		out[width] = 0;
	}
	for (; *out; out++)
		if (*out < ' ' || *out > '~')
			*out = '?';
}

/* ---- cells ---- */

static void make_text(struct cell *cell)
{
	snprintf(cell->text, CELL_MAX, "%s", json_text(cell->row, cell->column->key));
}

/*
 * Sets *number to the number of the cell. Returns false if the row has none; the cell's text is then "?", or "" if the
 * column may be empty.
 */
static bool number_in(struct cell *cell, uint64_t *number)
{
	const json_t *value = json_object_get(cell->row, cell->column->key);

	*number = (uint64_t)json_integer_value(value);
	if (!json_is_integer(value) && cell->column->shown != SHOWN_IF_ANY)
		strcpy(cell->text, "?");
	return json_is_integer(value);
}

static void make_number(struct cell *cell)
{
	uint64_t number;

	if (number_in(cell, &number))
		snprintf(cell->text, CELL_MAX, "%llu", (unsigned long long)number);
}

/* Makes the cell of a command. "-" stands for an empty command: the broker does not show another user's commands. */
static void make_command(struct cell *cell)
{
	make_text(cell);
	if (!*cell->text)
		strcpy(cell->text, "-");
}

static void make_size(struct cell *cell)
{
	uint64_t bytes;

	if (number_in(cell, &bytes))
		size_short(bytes, cell->text);
}

static void make_user(struct cell *cell)
{
	uint64_t uid;

	if (number_in(cell, &uid))
		user_text(uid, cell->text);
}

/* Makes the cell of a flag: "yes", or empty. */
static void make_flag(struct cell *cell)
{
	if (json_is_true(json_object_get(cell->row, cell->column->key)))
		strcpy(cell->text, "yes");
}

/* Makes the cell of a text that may be missing: the text, or empty. */
static void make_text_if_any(struct cell *cell)
{
	const char *text = json_string_value(json_object_get(cell->row, cell->column->key));

	snprintf(cell->text, CELL_MAX, "%s", text ? text : "");
}

static void make_mode(struct cell *cell)
{
	snprintf(cell->text, CELL_MAX, "%04llo", (unsigned long long)json_number(cell->row, "mode"));
}

static void make_kept(struct cell *cell)
{
	size_short(json_number(cell->row, "idle") + json_number(cell->row, "pooled"), cell->text);
}

/* Makes the cell of an age: in the largest unit of which the age has at least one, such as "59s" or "23h". */
static void make_age(struct cell *cell)
{
	static const struct {
		unsigned seconds;
		char     unit;
	} units[] = { { 365 * 86400, 'y' }, { 86400, 'd' }, { 3600, 'h' }, { 60, 'm' }, { 1, 's' } };
	uint64_t since = json_number(cell->row, cell->column->key), age = (uint64_t)cell->now - since;
	size_t i = 0;

	if (!since || since > (uint64_t)cell->now) {
		strcpy(cell->text, since ? "0s" : "?");
		return;
	}
	while (i < 4 && age < units[i].seconds)
		i++;
	snprintf(cell->text, CELL_MAX, "%llu%c", (unsigned long long)(age / units[i].seconds), units[i].unit);
}

/* Makes the cell of a number of grants or mappings: "1", or "1+2" if 2 others are orphaned. */
static void make_held(struct cell *cell)
{
	unsigned long long open = json_number(cell->row, cell->column->key), orphaned = json_number(cell->row, "held");

	snprintf(cell->text, CELL_MAX, orphaned ? "%llu+%llu" : "%llu", open, orphaned);
}

/* Makes the cell of a session's state: that of the session or, if the session is open, that of its process. */
static void make_session_state(struct cell *cell)
{
	const char *state = json_text(cell->row, "state"),
		   *process = json_string_value(json_object_get(cell->row, "process"));

	snprintf(cell->text, CELL_MAX, "%s", process && !strcmp(state, "open") ? process : state);
}

/*
 * A list of words in one cell, which is being written: "411,412 +3" if 3 more do not fit. At least one word is shown.
 * width: largest number of characters, or 0; length: number of bytes in the cell's text; listed: number of words in the
 * text.
 */
struct list {
	size_t length, listed, width;
	char  *text;
};

static bool list_add(struct list *list, const char *word)
{
	size_t length = strlen(word) + (list->listed > 0);

	if (list->listed == LISTED_MAX || list->length + length + 24 > CELL_MAX)
		return false;
	list->length += (size_t)sprintf(list->text + list->length, "%s%s", list->listed ? "," : "", word);
	list->listed++;
	return true;
}

/*
 * Removes words from the end of the list until the list fits with "+N" for the others. count: number of all words,
 * listed or not.
 */
static void list_end(struct list *list, uint64_t count)
{
	char more[24] = "";

	for (;;) {
		char *comma;

		if (count > list->listed)
			snprintf(more, sizeof more, " +%llu", (unsigned long long)(count - list->listed));
		comma = strrchr(list->text, ',');
		if (!list->width || !comma || strlen(list->text) + strlen(more) <= list->width)
			break;
		*comma = 0;
		list->listed--;
	}
	strcat(list->text, more);
}

static bool is_listed(const char *text, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = text; (at = strstr(at, word)); at += length)
		if ((at == text || at[-1] == ',') && (at[length] == ',' || !at[length]))
			return true;
	return false;
}

/* Makes the cell of the holders' pids. Lists each pid once, because a process may have mappings on several devices. */
static void make_holders(struct cell *cell)
{
	struct list list = { .width = cell->width, .text = cell->text };
	uint64_t count = json_number(cell->row, "grants") + json_number(cell->row, "held");
	char word[24];
	json_t *holder;
	size_t i;

	json_array_foreach (json_object_get(cell->row, "holders"), i, holder) {
		snprintf(word, sizeof word, "%llu", (unsigned long long)json_number(holder, "pid"));
		if (is_listed(cell->text, word))
			count -= count > 0;
		else if (!list_add(&list, word))
			break;
	}
	list_end(&list, count);
}

static void make_holds(struct cell *cell)
{
	struct list list = { .width = cell->width, .text = cell->text };
	uint64_t count = json_number(cell->row, "grants");
	json_t *name;
	size_t i;

	json_array_foreach (json_object_get(cell->row, "holds"), i, name) {
		const char *word = json_string_value(name);

		if (word && is_listed(cell->text, word))
			count -= count > 0;
		else if (!word || !list_add(&list, word))
			break;
	}
	list_end(&list, count);
}

/*
 * Makes the cell of a resource: USED/QUOTA, or only USED without a quota. For requests, which have no used amount:
 * "QUOTA/s", or "-".
 */
static void make_resource(struct cell *cell)
{
	const json_t *quota = json_object_get(json_object_get(cell->row, "quota"), cell->column->key);
	const json_t *used = json_object_get(json_object_get(cell->row, "used"), cell->column->key);
	char amount[2][SIZE_TEXT_MAX] = { "", "" };
	bool bytes = !strcmp(cell->column->key, "bytes");

	for (int i = 0; i < 2; i++) {
		uint64_t number = (uint64_t)json_integer_value(i ? quota : used);

		if (bytes)
			size_short(number, amount[i]);
		else
			snprintf(amount[i], sizeof amount[i], "%llu", (unsigned long long)number);
	}
	if (used)
		sprintf(cell->text, "%s%s%s", amount[0], quota ? "/" : "", quota ? amount[1] : "");
	else
		sprintf(cell->text, "%s%s", quota ? amount[1] : "-", quota ? "/s" : "");
}

/* ---- the columns ---- */

#define WORDS   .right = false
#define FIGURE  .right = true
#define ORDINAL .right = true, .rising = true
#define ASKED   .shown = SHOWN_ON_REQUEST

/* All columns, in the order in which they are shown. */
const struct column columns[] = {
	{ TABLE_BROKERS, "instance", "its name", "instance", make_text, .least = 12 },
	{ TABLE_BROKERS, "address", "where it listens", "address", make_text_if_any, ASKED },
	{ TABLE_BROKERS, "pid", "its process", "pid", make_number, ORDINAL },
	{ TABLE_BROKERS, "kind", "the kind of its devices", "device_kind", make_text, .least = 4 },
	{ TABLE_BROKERS, "used", "memory that its buffers take, of all devices", "used", make_size, FIGURE },
	{ TABLE_BROKERS, "buffers", "how many buffers it has", "buffers", make_number, FIGURE },
	{ TABLE_BROKERS, "sessions", "how many sessions it has", "sessions", make_number, FIGURE },
	{ TABLE_BROKERS, "state", "running, stopped, dead or unreadable", "state", make_text, WORDS },
	{ TABLE_BROKERS, "owner", "the user whom its file belongs to", "owner", make_user, .least = 8 },
	{ TABLE_BROKERS, "job", "the job that it is part of, as Slurm or PMIx names it", "job", make_text_if_any,
	  .least = 8, .shown = SHOWN_IF_ANY },

	{ TABLE_DEVICES, "dev", "the broker's number of the device", "index", make_number, ORDINAL },
	{ TABLE_DEVICES, "name", "its name", "name", make_text, .least = 12 },
	{ TABLE_DEVICES, "memory", "its memory", "bytes", make_size, FIGURE },
	{ TABLE_DEVICES, "used", "what buffers take of it", "used", make_size, FIGURE },
	{ TABLE_DEVICES, "kept", "what is kept for later buffers: idle and pooled memory", "idle", make_kept, FIGURE },
	{ TABLE_DEVICES, "idle", "memory without a buffer that some session maps", "idle", make_size, FIGURE, ASKED },
	{ TABLE_DEVICES, "pooled", "memory without a buffer that nobody maps", "pooled", make_size, FIGURE, ASKED },
	{ TABLE_DEVICES, "free", "the rest, as far as this broker knows", "free", make_size, FIGURE },
	{ TABLE_DEVICES, "uuid", "what it is called in every process", "uuid", make_text, .drop = 1 },

	{ TABLE_USERS, "user", "the user", "uid", make_user, .least = 8 },
	{ TABLE_USERS, "memory", "bytes of the devices, in whole granules, for its buffers and its idle memory",
	  "bytes", make_resource, FIGURE },
	{ TABLE_USERS, "buffers", "buffers that it owns", "buffers", make_resource, FIGURE },
	{ TABLE_USERS, "sessions", "sessions of its processes", "sessions", make_resource, FIGURE },
	{ TABLE_USERS, "grants", "buffers that its sessions use, counting each session once for each device", "grants",
	  make_resource, FIGURE },
	{ TABLE_USERS, "tickets", "tickets for its buffers that are good once, and wait to be redeemed", "tickets",
	  make_resource, FIGURE },
	{ TABLE_USERS, "requests", "how many requests a second its sessions may make", "requests", make_resource,
	  FIGURE },

	{ TABLE_SESSIONS, "session", "the session's number", "session", make_number, ORDINAL },
	{ TABLE_SESSIONS, "pid", "its process", "pid", make_number, ORDINAL },
	{ TABLE_SESSIONS, "user", "that process's user", "uid", make_user, .least = 6 },
	{ TABLE_SESSIONS, "command", "that process's name", "command", make_command, .least = 7 },
	{ TABLE_SESSIONS, "rank", "its rank in its job, as the process says", "rank", make_number, ORDINAL,
	  .shown = SHOWN_IF_ANY },
	{ TABLE_SESSIONS, "state", "the session's state; of an open one, its process's", "state", make_session_state,
	  WORDS },
	{ TABLE_SESSIONS, "container", "whether its process is in a container", "container", make_flag,
	  .shown = SHOWN_IF_ANY, .drop = 2 },
	{ TABLE_SESSIONS, "cpus", "the processors that its process may use, if not all", "cpus", make_text_if_any,
	  .least = 4, .shown = SHOWN_IF_ANY, .drop = 2 },
	{ TABLE_SESSIONS, "age", "how long it is connected", "since", make_age, ORDINAL },
	{ TABLE_SESSIONS, "mappings", "how many mappings it has", "mappings", make_held, FIGURE, .drop = 3 },
	{ TABLE_SESSIONS, "size", "the memory that those keep, in whole granules", "bytes", make_size, FIGURE },
	{ TABLE_SESSIONS, "history", "with --watch: how SIZE went lately", "history", make_text_if_any,
	  .shown = SHOWN_IF_ANY, .drop = 1 },
	{ TABLE_SESSIONS, "holds", "the buffers that it may use", "grants", make_holds, .least = 12, .list = true },

	{ TABLE_BUFFERS, "buffer", "its name", "name", make_text, .least = 16 },
	{ TABLE_BUFFERS, "size", "its size", "bytes", make_size, FIGURE },
	{ TABLE_BUFFERS, "layout", "the type and the extents of its elements, where it was created with them", "layout",
	  make_text_if_any, .shown = SHOWN_IF_ANY, .least = 10 },
	{ TABLE_BUFFERS, "allocated", "what it takes on the device", "allocated", make_size, FIGURE, ASKED },
	{ TABLE_BUFFERS, "dev", "the device that it is on", "device", make_number, ORDINAL },
	{ TABLE_BUFFERS, "state", "creating, live, draining or freeing", "state", make_text, WORDS },
	{ TABLE_BUFFERS, "owner", "the user whom it belongs to", "owner", make_user, .least = 6 },
	{ TABLE_BUFFERS, "group", "the number of its group", "group", make_number, ORDINAL, ASKED },
	{ TABLE_BUFFERS, "mode", "its permission bits, in octal", "mode", make_mode, FIGURE, ASKED },
	{ TABLE_BUFFERS, "timeline", "whether it has a timeline", "timeline", make_flag, ASKED },
	{ TABLE_BUFFERS, "ephemeral", "whether it is unlinked when its creator ends", "ephemeral", make_flag, ASKED },
	{ TABLE_BUFFERS, "dedicated", "whether it was created with an allocation of its own (GPUB_DEDICATED)", "alone",
	  make_flag, ASKED },
	{ TABLE_BUFFERS, "sameaddress", "whether each process maps it at the same address", "same_address", make_flag,
	  ASKED },
	{ TABLE_BUFFERS, "growable", "whether gpub_resize() can make it larger", "growable", make_flag,
	  ASKED },
	{ TABLE_BUFFERS, "export", "how its memory is exported: ipc or vmm", "export", make_text, WORDS, ASKED },
	{ TABLE_BUFFERS, "sealed", "whether nobody may write it any more", "sealed", make_flag, ASKED },
	{ TABLE_BUFFERS, "age", "how long it has been there", "created", make_age, ORDINAL },
	{ TABLE_BUFFERS, "generation", "its serial number; no other buffer of this broker ever has it", "generation",
	  make_number, ORDINAL, ASKED },
	{ TABLE_BUFFERS, "grants", "how many sessions may use it", "grants", make_held, FIGURE },
	{ TABLE_BUFFERS, "history", "with --watch: how GRANTS went lately", "history", make_text_if_any,
	  .shown = SHOWN_IF_ANY, .drop = 1 },
	{ TABLE_BUFFERS, "holders", "the processes of those sessions", "grants", make_holders, .least = 10,
	  .list = true },
};

const size_t columns_count = sizeof columns / sizeof *columns;

const char *table_name(enum table_kind table)
{
	static const char *const names[TABLES] = { "brokers", "devices", "users", "sessions", "buffers" };

	return names[table];
}

const struct column *column_in(enum table_kind table, const char *name)
{
	size_t length = strlen(table_name(table));

	if (!strncmp(name, table_name(table), length) && name[length] == '.')
		name += length + 1;
	for (size_t i = 0; i < columns_count; i++)
		if (columns[i].table == table && !strcmp(columns[i].name, name))
			return &columns[i];
	return NULL;
}

const struct column *column_find(const char *name, bool brokers)
{
	const struct column *found = NULL;

	for (int table = TABLES - 1; !found && table >= TABLE_BROKERS; table--)
		if ((table == TABLE_BROKERS) == brokers)
			found = column_in((enum table_kind)table, name);
	if (!found)
		error_set(-EINVAL, "there is no column '%.40s'%s: broker-status --columns=help lists them", name,
			  brokers ? " in the list of brokers" : "");
	return found;
}

void cell_make(struct cell *cell)
{
	*cell->text = 0;
	cell->column->make(cell);
	text_fit(cell->text, CELL_MAX, cell->text, cell->width);
}

static const json_t *sort_value(const struct column *column, const json_t *row)
{
	const json_t *value = column->make == make_resource ?
				      json_object_get(json_object_get(row, "used"), column->key) :
				      json_object_get(row, column->key);

	return value;
}

int column_compare(const struct column *column, const json_t *one, const json_t *other)
{
	const json_t *value = sort_value(column, one), *than = sort_value(column, other);
	struct cell cells[2];

	if (json_is_integer(value) && json_is_integer(than) && column->make != make_user) {
		uint64_t number = (uint64_t)json_integer_value(value), limit = (uint64_t)json_integer_value(than);

		if (column->make == make_kept) {
			number += json_number(one, "pooled");
			limit += json_number(other, "pooled");
		}
		return column->rising ? (number > limit) - (number < limit) : (number < limit) - (number > limit);
	}
	for (int i = 0; i < 2; i++) {
		cells[i].column = column;
		cells[i].row = i ? other : one;
		cells[i].now = 0;
		cells[i].width = 0;
		cell_make(&cells[i]);
	}
	/* empty cells come last */
	if (!*cells[0].text != !*cells[1].text)
		return *cells[0].text ? -1 : 1;
	return strcmp(cells[0].text, cells[1].text);
}

void columns_help(void)
{
	printf("%-9s %-11s %s\n", "TABLE", "COLUMN", "WHAT STANDS IN IT");
	for (size_t i = 0; i < columns_count; i++)
		printf("%-9s %-11s %s\n", table_name(columns[i].table), columns[i].name, columns[i].text);
}

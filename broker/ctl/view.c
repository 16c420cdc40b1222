/* SPDX-License-Identifier: Apache-2.0 */
/* view.c - see view.h */
#include "view.h"

#include <errno.h>
#include <fnmatch.h>
#include <string.h>

#include <jansson.h>

#include "broker/show/ask.h"
#include "broker/show/columns.h"
#include "broker/show/json.h"
#include "broker/show/table.h"
#include "common/error.h"
#include "gpubroker.h"

typedef bool wanted_fn(const json_t *element, const char *text);
typedef int show_fn(const json_t *array);

/*
 * Returns a new array of the elements for which wanted() is true; of all elements if wanted is NULL. Returns NULL if
 * there is no memory.
 */
static json_t *choose(const json_t *array, wanted_fn *wanted, const char *text)
{
	json_t *chosen = json_array(), *element;
	size_t i;

	json_array_foreach(array, i, element)
		if (!wanted || wanted(element, text))
			json_array_append(chosen, element);
	return chosen;
}

/*
 * Returns a new array of the wanted elements under the key. Returns NULL, with *error and the error message set, if the
 * broker does not answer or there is no memory.
 */
static json_t *ask(struct gpub_client *client, const char *key, wanted_fn *wanted, const char *text, int *error)
{
	struct shown shown;
	json_t *chosen;

	*error = shown_ask(&shown, client);
	if (*error)
		return NULL;
	chosen = choose(json_object_get(shown.text, key), wanted, text);
	shown_free(&shown);
	if (!chosen)
		*error = error_set(-ENOMEM, "out of memory for the broker's answer");
	return chosen;
}

static int show(json_t *array, bool json, show_fn *as_text)
{
	int error = 0;

	if (json)
		json_print(array);
	else
		error = as_text(array);
	json_decref(array);
	return error;
}

static int show_table(enum table_kind table, const json_t *rows)
{
	struct table_options options = { .paper = table_paper() };

	return table_rows_show(table, rows, &options);
}

/* ---- sessions, quotas ---- */

static int show_sessions(const json_t *sessions)
{
	return show_table(TABLE_SESSIONS, sessions);
}

int view_sessions(struct gpub_client *client, bool json)
{
	int error;
	json_t *sessions = ask(client, "sessions", NULL, NULL, &error);

	return sessions ? show(sessions, json, show_sessions) : error;
}

static int show_users(const json_t *users)
{
	return show_table(TABLE_USERS, users);
}

int view_quota(struct gpub_client *client, bool json)
{
	int error;
	json_t *users = ask(client, "users", NULL, NULL, &error);

	return users ? show(users, json, show_users) : error;
}

/* ---- buffers ---- */

static const char *name_of(const json_t *buffer)
{
	const char *name = json_string_value(json_object_get(buffer, "name"));

	return name ? name : "";
}

static bool matches(const json_t *buffer, const char *pattern)
{
	return !fnmatch(pattern, name_of(buffer), 0);
}

static bool is_called(const json_t *buffer, const char *name)
{
	return !strcmp(name_of(buffer), name);
}

static int show_buffers(const json_t *buffers)
{
	return show_table(TABLE_BUFFERS, buffers);
}

int view_list(struct gpub_client *client, const char *pattern, bool json)
{
	int error;
	json_t *buffers = ask(client, "buffers", pattern ? matches : NULL, pattern, &error);

	return buffers ? show(buffers, json, show_buffers) : error;
}

static int show_whole_buffers(const json_t *buffers)
{
	struct paper paper = table_paper();
	json_t *buffer;
	size_t i;

	json_array_foreach(buffers, i, buffer)
		table_whole_buffer(buffer, &paper);
	return 0;
}

/* Returns the live buffer if it may grow, or else NULL. Draining buffers of the same name cannot grow. */
static json_t *find_growable(const json_t *buffers)
{
	json_t *buffer;
	size_t i;

	json_array_foreach(buffers, i, buffer)
		if (json_is_true(json_object_get(buffer, "growable")) && !strcmp(json_text(buffer, "state"), "live"))
			return buffer;
	return NULL;
}

/*
 * Asks the broker for the buffer's reserve, which its status does not have, and adds it to the buffer's object, unless
 * the name belongs to another buffer by now.
 */
static int add_reserve(struct gpub_client *client, const char *name, const json_t *buffers)
{
	json_t *buffer = find_growable(buffers);
	gpub_info info = { .struct_size = sizeof info };
	int error;

	if (!buffer)
		return 0;
	error = gpub_stat(client, name, &info);
	if (error)
		return error == -ENOENT ? 0 : error;
	if (info.generation == json_number(buffer, "generation"))
		json_object_set_new(buffer, "reserve", json_integer((json_int_t)info.reserve));
	return 0;
}

/* Also shows the draining buffers that had the name last. */
int view_stat(struct gpub_client *client, const char *name, bool json)
{
	int error;
	json_t *buffers = ask(client, "buffers", is_called, name, &error);

	if (!buffers)
		return error;
	error = add_reserve(client, name, buffers);
	if (!error && json_array_size(buffers))
		return show(buffers, json, show_whole_buffers);
	json_decref(buffers);
	return error ? error :
		       error_set(-ENOENT, "you have and use no buffer '%s': broker-ctl list shows those you do", name);
}

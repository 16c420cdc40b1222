/* SPDX-License-Identifier: Apache-2.0 */
/* json.c - see json.h */
#include "json.h"
#include "read.h"

#include <stdio.h>

/*
 * Returns an object with what the reader knows of a broker's file. jansson ignores NULL values: if there is no memory,
 * keys are missing.
 */
static json_t *broker_json(const struct shown *shown)
{
	json_t *object = json_object();

	json_object_set_new(object, "owner", json_integer(shown->owner));
	json_object_set_new(object, "start_time", json_integer((json_int_t)shown->header.start_time));
	json_object_set_new(object, "trusted", json_boolean(shown->trusted));
	json_object_set_new(object, "partial", json_boolean(shown->partial));
	json_object_set_new(object, "unreadable", json_integer((json_int_t)shown->unreadable));
	return object;
}

/* Returns the object of one broker. Values that the reader knows itself replace those of the file. */
static json_t *shown_json(const struct shown *shown)
{
	json_t *object = json_pack("{s:i}", "version", JSON_VERSION);

	if (shown->text)
		json_object_update(object, shown->text);
	json_object_set_new(object, "instance", json_string(shown->instance));
	json_object_set_new(object, "state", json_string(shown_state_name(shown->state)));
	if (shown->state == SHOWN_UNREADABLE) {
		json_object_set_new(object, "error", json_string(shown->why));
		return object;
	}
	json_object_set_new(object, "pid", json_integer((json_int_t)shown->header.pid));
	json_object_set_new(object, "broker", broker_json(shown));
	if (shown->partial) {
		json_object_del(object, "counters");
		json_object_del(object, "waiting");
		json_object_del(object, "times");
	}
	return object;
}

static void print(json_t *json)
{
	json_dumpf(json, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
	json_decref(json);
}

void json_print(const json_t *json)
{
	json_dumpf(json, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
	putchar('\n');
}

void json_show(const struct shown *shown)
{
	json_t *json = shown_json(shown);

	json_print(json);
	json_decref(json);
}

void json_list(const struct shown *shown, size_t before)
{
	fputs(before ? ",\n" : "[\n", stdout);
	print(shown_json(shown));
}

void json_list_end(size_t count)
{
	puts(count ? "\n]" : "[]");
}

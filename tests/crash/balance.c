/* SPDX-License-Identifier: Apache-2.0 */
/* balance.c - see balance.h */
#include "balance.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STAIN 0xEE

void balance_broker(struct broker_process *broker)
{
	char memory[24];

	snprintf(memory, sizeof memory, "%u", BALANCE_MEMORY);
	setenv("GPUB_HOST_MEMORY", memory, 1);
	broker_start(broker, "host");
	unsetenv("GPUB_HOST_MEMORY");
}

static int64_t number(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

/* ---- the accounting ---- */

static const char *sessions_wrong(const json_t *text, pid_t survivor)
{
	const json_t *sessions = json_object_get(text, "sessions");

	if (json_array_size(sessions) != 1)
		return "there are sessions of clients that are gone";
	if (number(json_array_get(sessions, 0), "pid") != survivor)
		return "the survivor's session is gone";
	return number(json_array_get(sessions, 0), "mappings") ? "the survivor holds mappings" : NULL;
}

static const char *counters_wrong(const json_t *counters)
{
	if (number(counters, "allocations_made") != number(counters, "allocations_freed"))
		return "allocations made and freed differ";
	if (number(counters, "bytes_made") != number(counters, "bytes_freed"))
		return "bytes made and freed differ";
	if (number(counters, "mappings_opened") !=
	    number(counters, "mappings_closed") + number(counters, "mappings_died"))
		return "mappings opened and ended differ";
	if (number(counters, "sessions_opened") !=
	    number(counters, "sessions_left") + number(counters, "sessions_died") + 1)
		return "sessions opened and ended differ";
	return NULL;
}

static const char *text_wrong(const json_t *text, pid_t survivor)
{
	const char *wrong = sessions_wrong(text, survivor);

	if (!wrong && json_array_size(json_object_get(text, "buffers")))
		wrong = "there are buffers";
	if (!wrong && number(text, "waiting"))
		wrong = "somebody waits";
	return wrong ? wrong : counters_wrong(json_object_get(text, "counters"));
}

/* Names that are left, but for those that the broker is to take away itself. */
static void unlink_left(const json_t *text, struct puppet *survivor)
{
	const json_t *buffer;
	struct order order = { .run = do_unlink };
	size_t i;

	json_array_foreach(json_object_get(text, "buffers"), i, buffer) {
		if (json_is_true(json_object_get(buffer, "ephemeral")) ||
		    strcmp(json_string_value(json_object_get(buffer, "state")), "live"))
			continue;
		snprintf(order.name, sizeof order.name, "%s", json_string_value(json_object_get(buffer, "name")));
		puppet_tell(survivor, order);
		puppet_receive(survivor);
	}
}

/* What the pool keeps is nobody's; that it can be had is seen where all of the memory is taken. */
static bool is_pooled(const json_t *text)
{
	return number(json_array_get(json_object_get(text, "devices"), 0), "pooled");
}

static bool is_balanced(const struct broker_process *broker, struct puppet *survivor, const char **wrong)
{
	json_t *text = status_json(broker);

	*wrong = text_wrong(text, survivor->pid);
	if (*wrong)
		unlink_left(text, survivor);
	else if (!is_pooled(text) && memory_objects(broker))
		*wrong = "there is memory that no buffer has";
	json_decref(text);
	return !*wrong;
}

const char *balance_wrong(const struct broker_process *broker, struct puppet *survivor)
{
	const char *wrong = NULL;
	char *text;

	status_stable(broker, survivor); /* the file may be older than the others */
	if (SOON(is_balanced(broker, survivor, &wrong)))
		return NULL;
	text = json_dumps(status_json(broker), JSON_COMPACT);
	printf("# the status: %s\n", text);
	free(text);
	return wrong;
}

/* ---- the memory ---- */

static int check_and_stain(uint8_t *bytes, size_t size)
{
	bool zero = !bytes[0] && !memcmp(bytes, bytes + 1, size - 1);

	memset(bytes, STAIN, size);
	return zero ? 0 : -EILSEQ;
}

/* A step of the survivor. What it acquired it gives back whatever it found. */
static int take_all_memory(const struct order *order)
{
	struct order all = { .name = "all-memory", .size = BALANCE_MEMORY, .slot = SLOTS - 1 };
	int error = do_create(&all), found;

	(void)order;
	if (error)
		return error;
	error = do_acquire(&all);
	if (error)
		return error;
	found = check_and_stain(lease[all.slot].ptr, BALANCE_MEMORY);
	error = do_return(&all);
	if (!error)
		error = do_trim(&all);
	if (!error)
		error = do_unlink(&all);
	return error ? error : found;
}

const char *memory_wrong(struct puppet *survivor)
{
	switch (ask(survivor, take_all_memory)) {
	case 0:
		return NULL;
	case -EILSEQ:
		return "the memory is not zeroed";
	default:
		return survivor->last.text;
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* rates.c - see rates.h */
#include "rates.h"

#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "common/tables.h"

/* Key of a history. Hashed as bytes, so it has no padding. */
struct followed_key {
	uint64_t table, id;
};

struct followed {
	struct followed_key key;
	struct history      history;
	bool                seen; /* the current look has a row for this history; if not, the history is freed */
	UT_hash_handle      hh;
};

_Static_assert(sizeof(struct followed_key) == 16, "keys are compared as bytes: no padding");

/* ---- histories ---- */

static void history_add(struct history *history, double value)
{
	history->values[history->count++ % HISTORY_MAX] = value;
}

static double history_at(const struct history *history, unsigned back)
{
	return history->values[(history->count - 1 - back) % HISTORY_MAX];
}

char *history_levels(const struct history *history, double most, char *text, size_t width)
{
	unsigned count = history->count < HISTORY_MAX ? history->count : HISTORY_MAX;

	count = count < width ? count : (unsigned)width;
	for (unsigned i = 0; i < count; i++)
		most = history_at(history, i) > most ? history_at(history, i) : most;
	for (unsigned i = 0; i < count; i++) {
		double value = history_at(history, count - 1 - i);

		text[i] = (char)('0' + (value > 0 ? 1 + (int)(6 * (value / most)) : 0));
	}
	text[count] = 0;
	return text;
}

/* ---- what is followed ---- */

static struct followed *follow(struct rates *rates, enum table_kind table, uint64_t id)
{
	const struct followed_key key = { (uint64_t)table, id };
	struct followed *followed;

	HASH_FIND(hh, rates->followed, &key, sizeof key, followed);
	if (followed)
		return followed;
	followed = calloc(1, sizeof *followed);
	if (!followed)
		return NULL;
	followed->key = key;
	HASH_ADD(hh, rates->followed, key, sizeof key, followed);
	if (table_added(followed))
		return followed;
	free(followed);
	return NULL;
}

static void rows_follow(struct rates *rates, enum table_kind table, const json_t *rows, const char *id,
			const char *value, const char *most, size_t width)
{
	char text[HISTORY_MAX + 1];
	json_t *row;
	size_t i;

	json_array_foreach (rows, i, row) {
		struct followed *followed = json_is_object(row) ? follow(rates, table, json_number(row, id)) : NULL;

		if (!followed)
			continue;
		if (!followed->seen)
			history_add(&followed->history, (double)json_number(row, value));
		followed->seen = true;
		history_levels(&followed->history, most ? (double)json_number(row, most) : 0, text, width);
		json_object_set_new(row, "history", json_string(text));
	}
}

static void forget(struct rates *rates, bool all)
{
	struct followed *followed, *next;

	HASH_ITER(hh, rates->followed, followed, next) {
		if (followed->seen && !all) {
			followed->seen = false;
			continue;
		}
		HASH_DEL(rates->followed, followed);
		free(followed);
	}
}

/* ---- looks ---- */

void rates_free(struct rates *rates)
{
	forget(rates, true);
	*rates = (struct rates){ 0 };
}

static void rates_count(struct rates *rates, const struct counters *counters, double second)
{
	const uint64_t now[RATES] = { [RATE_CREATES] = counters->buffers_created,
				      [RATE_ACQUIRES] = counters->acquires_answered,
				      [RATE_BYTES] = counters->bytes_made };
	double passed = second - rates->looked;

	if (rates->known && passed <= 0)
		return;
	for (int i = 0; i < RATES; i++) {
		uint64_t more = now[i] > rates->counted[i] ? now[i] - rates->counted[i] : 0;

		if (rates->known)
			history_add(&rates->history[i], (double)more / passed);
		rates->counted[i] = now[i];
	}
	rates->looked = second;
	rates->known = true;
}

void rates_look(struct rates *rates, struct shown *shown, double second, size_t width)
{
	width = width < HISTORY_MAX ? width : HISTORY_MAX;
	if (rates->pid != shown->header.pid || rates->start_time != shown->header.start_time) {
		rates_free(rates);
		rates->pid = shown->header.pid;
		rates->start_time = shown->header.start_time;
	}
	rates_count(rates, &shown->header.counters, second);
	rows_follow(rates, TABLE_DEVICES, json_object_get(shown->text, "devices"), "index", "used", "bytes", width);
	rows_follow(rates, TABLE_SESSIONS, json_object_get(shown->text, "sessions"), "session", "bytes", NULL, width);
	rows_follow(rates, TABLE_BUFFERS, json_object_get(shown->text, "buffers"), "generation", "grants", NULL, width);
	forget(rates, false);
}

double rates_now(const struct rates *rates, enum rate rate)
{
	const struct history *history = &rates->history[rate];

	return history->count ? history_at(history, 0) : 0;
}

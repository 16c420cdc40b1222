/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-status.c - a status file that anybody may have written, read and shown as broker-status does.
 *
 * The input is the file without its ring of events, which has a target of its own. What is shown is caught and checked:
 * no line of a table on narrow paper is longer than 80 columns, nothing but printable ASCII leaves any, --json gives
 * JSON, and --why says the same twice.
 */
#include "fuzz.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "broker/show/json.h"
#include "broker/show/read.h"
#include "broker/show/table.h"
#include "broker/show/why.h"

int __wrap_nanosleep(const struct timespec *time, struct timespec *left);

/* Nobody writes this file meanwhile: it need not be waited for. */
int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
	(void)time;
	(void)left;
	return 0;
}

/* ---- what is shown ---- */

static char *shown_text;
static size_t shown_size;
static FILE *real_stdout;

static void catch(void)
{
	real_stdout = stdout;
	stdout = open_memstream(&shown_text, &shown_size);
	if (!stdout)
		fuzz_fail("no memory to catch what is shown");
}

static void caught(void)
{
	fclose(stdout);
	stdout = real_stdout;
}

static void table_check(size_t width)
{
	size_t column = 0;

	for (size_t i = 0; i < shown_size; i++) {
		column = shown_text[i] == '\n' ? 0 : column + 1;
		FUZZ_HOLDS(!width || column <= width, "a line of a table is longer than %zu columns", width);
		FUZZ_HOLDS(shown_text[i] == '\n' || (shown_text[i] >= ' ' && shown_text[i] <= '~'),
			   "byte 0x%02x leaves a table", (unsigned char)shown_text[i]);
	}
	free(shown_text);
}

static void json_check(void)
{
	json_t *json = json_loadb(shown_text, shown_size, 0, NULL);

	FUZZ_HOLDS(json, "what --json shows is no JSON: %.200s", shown_text);
	for (size_t i = 0; i < shown_size; i++)
		FUZZ_HOLDS((unsigned char)shown_text[i] < 0x80, "byte 0x%02x leaves --json",
			   (unsigned char)shown_text[i]);
	json_decref(json);
	free(shown_text);
}

static void show_on(const struct shown *shown, size_t width)
{
	struct table_options options = { .paper.width = width, .all = true };

	catch();
	table_show(shown, &options);
	options.all = false;
	options.selection.of_holder = true;
	options.selection.holder = 7;
	options.selection.sort = "state";
	table_show(shown, &options);
	caught();
	table_check(width);
}

/* ---- what is explained ---- */

static char why_text[2][1 << 20];
static char *why_end;

static void why_say(void *context, const char *line)
{
	const char *all = context;
	size_t length = strlen(line);

	for (size_t i = 0; i < length; i++)
		FUZZ_HOLDS(line[i] >= ' ' && line[i] <= '~', "byte 0x%02x leaves --why", (unsigned char)line[i]);
	if ((size_t)(why_end - all) + length < sizeof why_text[0])
		why_end = stpcpy(why_end, line);
}

static void explain(const struct shown *shown, const char *about)
{
	struct why_found found[2];
	int error[2];

	for (int i = 0; i < 2; i++) {
		struct why why = { .records = shown->records,
				   .count = shown->count,
				   .about = about,
				   .live = true,
				   .now_ms = 1000000,
				   .say = why_say,
				   .context = why_text[i] };

		*(why_end = why_text[i]) = 0;
		error[i] = why_explain(&why, &found[i]);
	}
	FUZZ_HOLDS(error[0] == error[1] && found[0].deadlocks == found[1].deadlocks &&
			   !strcmp(why_text[0], why_text[1]),
		   "--why says something else the second time");
	FUZZ_HOLDS(error[0] != -ENOMEM && (error[0] || why_text[0][0] || found[0].lines), "--why says nothing");
}

static void show(const struct shown *shown)
{
	show_on(shown, 80);
	show_on(shown, 0);
	catch();
	json_show(shown);
	caught();
	json_check();
	explain(shown, NULL);
	explain(shown, "a");
	explain(shown, "1");
}

static void list(const struct shown *shown, size_t count)
{
	const struct table_options options = { .paper.width = 80 };
	json_t *rows = json_array();

	catch();
	for (size_t i = 0; i < count; i++)
		table_list_add(rows, &shown[i]);
	table_list_show(rows, &options);
	caught();
	json_decref(rows);
	table_check(80);
	catch();
	for (size_t i = 0; i < count; i++)
		json_list(&shown[i], i);
	json_list_end(count);
	caught();
	json_check();
}

/* ---- */

/* With a hole where the ring is. */
static int file_of(const uint8_t *data, size_t size)
{
	size_t front = size < STATUS_RING ? size : STATUS_RING;
	int fd = fuzz_file(data, front);

	if (size > front && pwrite(fd, data + front, size - front, STATUS_HEADER_SIZE) != (ssize_t)(size - front))
		fuzz_fail("no memory for a file");
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct shown shown[2] = { 0 };
	int fd = file_of(data, size), error = shown_read_fd(&shown[0], "fuzz", fd);

	close(fd);
	if (error) {
		fuzz_check_message();
		FUZZ_HOLDS(!shown[0].text && !shown[0].instance[0], "a refusal leaves something behind");
		shown_refused(&shown[0], "fuzz");
	} else {
		show(&shown[0]);
	}
	shown_refused(&shown[1], "other");
	list(shown, 2);
	shown_free(&shown[0]);
	return 0;
}

/* Most of the time header and records are whole, and of known types: behind that lies what reads them. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned number)
{
	struct status_header header;
	union status_record record;

	size = LLVMFuzzerMutate(data, size, room);
	if (number % 8 == 0 || size < STATUS_RING || sodium_init() < 0)
		return size;
	memcpy(&header, data, sizeof header);
	header.magic = STATUS_MAGIC;
	header.format = STATUS_FORMAT;
	header.counters_count = sizeof(struct counters) / sizeof(uint64_t);
	header.records = (size - STATUS_RING) / sizeof record;
	status_seal(&header.seal, STATUS_HEADER_SEALED, 1);
	memcpy(data, &header, sizeof header);
	for (uint64_t slot = 0; slot < header.records; slot++) {
		memcpy(&record, data + STATUS_RING + slot * sizeof record, sizeof record);
		if (!status_size(record.type)) /* TRACKED_OWNER is the last of a row of types that have a size */
			record.type = record.type % TRACKED_OWNER + 1;
		if (record.seal.checksum && status_size(record.type))
			status_seal(&record.seal, status_size(record.type), 1);
		memcpy(data + STATUS_RING + slot * sizeof record, &record, sizeof record);
	}
	return size;
}

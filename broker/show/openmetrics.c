/* SPDX-License-Identifier: Apache-2.0 */
/* openmetrics.c - see openmetrics.h */
#include "openmetrics.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "broker/base/counters.h"
#include "broker/base/histograms.h"
#include "common/error.h"
#include "common/tables.h"
#include "device/device.h"
#include "read.h"
#include "records.h"

#define LABEL_MAX  128 /* largest number of bytes of a label's value, before it is escaped */
#define LABELS_MAX 1200
#define OTHERS     "(others)"

/* ---- the families ---- */

enum family_type { GAUGE, COUNTER, HISTOGRAM, INFO };

/* The families of samples. Columns: name, type, unit, help text. */
#define FAMILIES_KNOWN(X)                                                                                         \
	X(gpubroker_build, INFO, "", "the program that wrote this")                                               \
	X(gpubroker_up, GAUGE, "",                                                                                \
	  "1: the broker runs; 0: it is stopped, dead, unreadable or absent, as state says")                      \
	X(gpubroker_broker, INFO, "",                                                                             \
	  "what a broker is; trusted: nobody but its user and root could have written its status")                \
	X(gpubroker_stopping, GAUGE, "", "1: the broker is stopping, and makes no more buffers")                  \
	X(gpubroker_memory_owner, GAUGE, "",                                                                      \
	  "1: a process owns the device memory; 0: none does now, and creates and drains wait, as state says")    \
	X(gpubroker_memory_owners_died, COUNTER, "", "owners of the device memory that ended before the broker")  \
	X(gpubroker_memory_owner_died_timestamp_seconds, GAUGE, "seconds",                                        \
	  "when the last of them ended; none has: absent")                                                        \
	X(gpubroker_restarts, COUNTER, "", "brokers that ended, and were replaced by another one")                \
	X(gpubroker_cold_starts, COUNTER, "", "of them, those whose buffers and sessions were lost")              \
	X(gpubroker_restart_timestamp_seconds, GAUGE, "seconds",                                                  \
	  "when the last of them was replaced; none was: absent")                                                 \
	X(gpubroker_restart_pause_seconds, GAUGE, "seconds",                                                      \
	  "from its end until the next one served; none was replaced: absent")                                    \
	X(gpubroker_names_lost, COUNTER, "",                                                                      \
	  "buffers that lost their names because the owner of their memory ended")                                \
	X(gpubroker_changed_timestamp_seconds, GAUGE, "seconds", "when the broker's status last changed")         \
	X(gpubroker_damaged_records, GAUGE, "", "records of the status file that cannot be read")                 \
	X(gpubroker_omitted_samples, GAUGE, "",                                                                   \
	  "samples that are left out: a status file has more users or states than fit")                           \
	X(gpubroker_device_memory_bytes, GAUGE, "bytes", "the memory of a device, whoever uses it")               \
	X(gpubroker_memory_bytes, GAUGE, "bytes",                                                                 \
	  "memory of a device: of buffers, by owner and state; idle and pooled memory has no buffer and no user") \
	X(gpubroker_buffers, GAUGE, "", "buffers, by owner and state")                                            \
	X(gpubroker_sessions, GAUGE, "", "sessions, by state")                                                    \
	X(gpubroker_waiting_requests, GAUGE, "", "requests that wait for a name, for memory or for a drain")      \
	X(gpubroker_user_used_bytes, GAUGE, "bytes",                                                              \
	  "what a user is charged with, of what is counted in bytes")                                             \
	X(gpubroker_user_quota_bytes, GAUGE, "bytes",                                                             \
	  "the most that a user may be charged with; without a quota: absent")                                    \
	X(gpubroker_user_used, GAUGE, "", "what a user is charged with, of what is counted in pieces")            \
	X(gpubroker_user_quota, GAUGE, "",                                                                        \
	  "the most that a user may be charged with, and requests a second; without a quota: absent")

enum {
#define FAMILY_ID(name, type, unit, help) name,
	FAMILIES_KNOWN(FAMILY_ID)
#undef FAMILY_ID
#define FAMILY_ID(name, text) gpubroker_##name,
	COUNTERS(FAMILY_ID)
#undef FAMILY_ID
#define FAMILY_ID(id, key, first, text) gpubroker_##key##_seconds,
	HISTOGRAMS_KNOWN(FAMILY_ID)
#undef FAMILY_ID
	FAMILIES
};

static const struct family {
	enum family_type type;
	const char      *name, *unit, *help;
} families[FAMILIES] = {
#define FAMILY_ROW(name, type, unit, help) { type, #name, unit, help },
	FAMILIES_KNOWN(FAMILY_ROW)
#undef FAMILY_ROW
#define FAMILY_ROW(name, text) { COUNTER, "gpubroker_" #name, "", text },
	COUNTERS(FAMILY_ROW)
#undef FAMILY_ROW
#define FAMILY_ROW(id, key, first, text) { HISTOGRAM, "gpubroker_" #key "_seconds", "seconds", text },
	HISTOGRAMS_KNOWN(FAMILY_ROW)
#undef FAMILY_ROW
};

/* ---- samples ---- */

struct sample {
	uint64_t       value;
	bool           nanoseconds; /* true: the value is in nanoseconds, and is written in seconds */
	UT_hash_handle hh;
	char           text[];      /* the key in the hash table: the sample's suffix and labels */
};

struct user_label {
	uint64_t       uid;
	UT_hash_handle hh;
	char           text[];
};

struct metrics {
	/* hash tables of samples by text, one for each family; samples stay in the order of insertion */
	struct sample     *samples[FAMILIES];
	struct user_label *users;             /* hash table of the users of the broker that is being added */
	unsigned           added;             /* number of samples of this broker */
	uint64_t           omitted;           /* number of samples of this broker that were left out */
	bool               no_memory;         /* a sample or user was lost because there was no memory */
};

static void users_forget(struct metrics *metrics)
{
	struct user_label *user, *next;

	HASH_ITER(hh, metrics->users, user, next) {
		HASH_DEL(metrics->users, user);
		free(user);
	}
}

static void metrics_deinit(struct metrics *metrics)
{
	struct sample *sample, *next;

	for (int i = 0; i < FAMILIES; i++)
		HASH_ITER(hh, metrics->samples[i], sample, next) {
			HASH_DEL(metrics->samples[i], sample);
			free(sample);
		}
	users_forget(metrics);
}

static void sample_new(struct metrics *metrics, int family, const char *text, size_t length, uint64_t value,
		       bool nanoseconds)
{
	struct sample *sample = malloc(sizeof *sample + length + 1);

	if (!sample) {
		metrics->no_memory = true;
		return;
	}
	sample->value = value;
	sample->nanoseconds = nanoseconds;
	memcpy(sample->text, text, length + 1);
	HASH_ADD(hh, metrics->samples[family], text, length, sample);
	if (table_added(sample)) {
		metrics->added++;
		return;
	}
	free(sample);
	metrics->no_memory = true;
}

/*
 * Adds a value to the sample with this text, or makes a new sample. A reader would refuse a text with the same sample
 * twice.
 */
static void sample_add(struct metrics *metrics, int family, const char *text, uint64_t value, bool nanoseconds)
{
	size_t length = strlen(text);
	struct sample *sample;

	HASH_FIND(hh, metrics->samples[family], text, length, sample);
	if (sample)
		sample->value += value;
	else if (metrics->added < METRICS_SAMPLES_MAX)
		sample_new(metrics, family, text, length, value, nanoseconds);
	else
		metrics->omitted++;
}

/* Appends a label's value, escaped as both formats require, and printable. Returns the new end. */
static char *label_escape(char *at, const char *value)
{
	for (int i = 0; i < LABEL_MAX && value[i]; i++) {
		if (value[i] == '\\' || value[i] == '"')
			*at++ = '\\';
		*at++ = '?';
		if (value[i] >= ' ' && value[i] <= '~')
			at[-1] = value[i];
	}
	return at;
}

#define LABELS_END ((const char *)NULL)

/* Writes a suffix and labels: pairs of name and value, ended by LABELS_END. A label with the value NULL is left out. */
static void labels_write(char text[LABELS_MAX], const char *suffix, va_list labels)
{
	char *at = stpcpy(text, suffix), *begin = at;
	const char *name, *value;

	while ((name = va_arg(labels, const char *))) {
		value = va_arg(labels, const char *);
		if (!value)
			continue;
		at += sprintf(at, "%c%s=\"", at == begin ? '{' : ',', name);
		at = label_escape(at, value);
		*at++ = '"';
	}
	if (at != begin)
		*at++ = '}';
	*at = 0;
}

static void add(struct metrics *metrics, int family, uint64_t value, ...)
{
	static const char *const suffixes[] = { [GAUGE] = "", [COUNTER] = "_total", [INFO] = "_info" };
	char text[LABELS_MAX];
	va_list labels;

	va_start(labels, value);
	labels_write(text, suffixes[families[family].type], labels);
	va_end(labels);
	sample_add(metrics, family, text, value, false);
}

/* Adds a gauge whose value in seconds is given in nanoseconds. */
static void add_time(struct metrics *metrics, int family, uint64_t nanoseconds, ...)
{
	char text[LABELS_MAX];
	va_list labels;

	va_start(labels, nanoseconds);
	labels_write(text, "", labels);
	va_end(labels);
	sample_add(metrics, family, text, nanoseconds, true);
}

static void add_of_histogram(struct metrics *metrics, int family, const char *suffix, uint64_t value, ...)
{
	char text[LABELS_MAX];
	va_list labels;

	va_start(labels, value);
	labels_write(text, suffix, labels);
	va_end(labels);
	sample_add(metrics, family, text, value, !strcmp(suffix, "_sum"));
}

/* ---- what a status says ---- */

struct adding {
	struct metrics     *metrics;
	const struct shown *shown;
	const char         *broker;               /* value of the label "broker" */
	/* value of each device's label "device_uuid", by the device's index; "": there is no such device */
	char                uuid[DEVICE_MAX][48];
};

static const char *text_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static uint64_t number_of(const json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

static const char *user_new(struct metrics *metrics, uint64_t uid)
{
	const struct passwd *known = uid < (uid_t)-1 ? getpwuid((uid_t)uid) : NULL;
	char digits[24];
	const char *text = digits;
	struct user_label *user;

	snprintf(digits, sizeof digits, "%" PRIu64, uid);
	if (known)
		text = known->pw_name;
	user = malloc(sizeof *user + strlen(text) + 1);
	if (!user) {
		metrics->no_memory = true;
		return OTHERS;
	}
	user->uid = uid;
	strcpy(user->text, text);
	HASH_ADD(hh, metrics->users, uid, sizeof user->uid, user);
	if (table_added(user))
		return user->text;
	free(user);
	metrics->no_memory = true;
	return OTHERS;
}

/* Returns the label of a user: its name or uid, which is looked up once for each broker, or OTHERS. */
static const char *user_of(struct metrics *metrics, uint64_t uid)
{
	struct user_label *user;

	HASH_FIND(hh, metrics->users, &uid, sizeof uid, user);
	if (user)
		return user->text;
	return HASH_COUNT(metrics->users) < METRICS_USERS_MAX ? user_new(metrics, uid) : OTHERS;
}

static void add_broker(const struct adding *adding)
{
	const struct shown *shown = adding->shown;
	const json_t *status = shown->text;

	add(adding->metrics, gpubroker_broker, 1, "broker", adding->broker, "device_kind",
	    text_of(status, "device_kind"), "owner", user_of(adding->metrics, shown->owner), "trusted",
	    shown->trusted ? "true" : "false", "version", shown_version(shown) ? shown_version(shown) : "",
	    LABELS_END);
	add(adding->metrics, gpubroker_stopping, json_is_true(json_object_get(status, "stopping")), "broker",
	    adding->broker, LABELS_END);
	add(adding->metrics, gpubroker_changed_timestamp_seconds, number_of(status, "updated"), "broker",
	    adding->broker, LABELS_END);
	add(adding->metrics, gpubroker_waiting_requests, number_of(status, "waiting"), "broker", adding->broker,
	    LABELS_END);
	add(adding->metrics, gpubroker_damaged_records, shown->unreadable, "broker", adding->broker, LABELS_END);
}

/* Adds nothing for an older broker, which does not tell of its owner. */
static void add_owner(const struct adding *adding)
{
	const struct status_owner *owner = shown_owner(adding->shown);

	if (!owner)
		return;
	add(adding->metrics, gpubroker_memory_owner, owner->state == STATUS_OWNER_RUNS, "broker", adding->broker,
	    "state", owner_state_name((enum status_owner_state)owner->state), LABELS_END);
	add(adding->metrics, gpubroker_memory_owners_died, owner->died, "broker", adding->broker, LABELS_END);
	if (owner->died)
		add(adding->metrics, gpubroker_memory_owner_died_timestamp_seconds, owner->died_at / 1000, "broker",
		    adding->broker, LABELS_END);
	if (owner->lost_all != STATUS_HIDDEN)
		add(adding->metrics, gpubroker_names_lost, owner->lost_all, "broker", adding->broker, LABELS_END);
}

/* Adds nothing for a broker that nobody replaces. */
static void add_restarts(const struct adding *adding)
{
	const struct status_broker *broker = shown_broker(adding->shown);

	if (!broker)
		return;
	add(adding->metrics, gpubroker_restarts, broker->restarts, "broker", adding->broker, LABELS_END);
	add(adding->metrics, gpubroker_cold_starts, broker->cold_starts, "broker", adding->broker, LABELS_END);
	if (!broker->restarts)
		return;
	add(adding->metrics, gpubroker_restart_timestamp_seconds, broker->since / 1000, "broker", adding->broker,
	    LABELS_END);
	add_time(adding->metrics, gpubroker_restart_pause_seconds, broker->pause_us * 1000, "broker", adding->broker,
		 LABELS_END);
}

/* Writes a device's label: "GPU-...", as nvidia-smi and DCGM write the UUID, or "HOST-..." for a host device. */
static void device_label(char label[48], const struct shown *shown, const json_t *device)
{
	const char *kind = text_of(shown->text, "device_kind"), *uuid = text_of(device, "uuid");

	snprintf(label, 48, "%s-%.40s", kind && !strcmp(kind, "cuda") ? "GPU" : "HOST", uuid ? uuid : "");
}

static void add_devices(struct adding *adding)
{
	struct metrics *metrics = adding->metrics;
	const json_t *device;
	size_t i;

	json_array_foreach(json_object_get(adding->shown->text, "devices"), i, device) {
		uint64_t index = number_of(device, "index");
		char digits[24];

		if (index >= DEVICE_MAX || *adding->uuid[index])
			continue;
		device_label(adding->uuid[index], adding->shown, device);
		snprintf(digits, sizeof digits, "%" PRIu64, index);
		add(metrics, gpubroker_device_memory_bytes, number_of(device, "bytes"), "broker", adding->broker,
		    "device", digits, "device_uuid", adding->uuid[index], "model", text_of(device, "name"), LABELS_END);
		add(metrics, gpubroker_memory_bytes, number_of(device, "idle"), "broker", adding->broker, "device_uuid",
		    adding->uuid[index], "state", "idle", LABELS_END);
		add(metrics, gpubroker_memory_bytes, number_of(device, "pooled"), "broker", adding->broker,
		    "device_uuid", adding->uuid[index], "state", "pooled", LABELS_END);
	}
}

static void add_buffers(const struct adding *adding)
{
	const json_t *buffer;
	size_t i;

	json_array_foreach(json_object_get(adding->shown->text, "buffers"), i, buffer) {
		uint64_t index = number_of(buffer, "device");
		const char *uuid = index < DEVICE_MAX && *adding->uuid[index] ? adding->uuid[index] : NULL;
		const char *user = user_of(adding->metrics, number_of(buffer, "owner")),
			   *state = text_of(buffer, "state");

		add(adding->metrics, gpubroker_memory_bytes, number_of(buffer, "allocated"), "broker", adding->broker,
		    "user", user, "device_uuid", uuid, "state", state, LABELS_END);
		add(adding->metrics, gpubroker_buffers, 1, "broker", adding->broker, "user", user, "device_uuid", uuid,
		    "state", state, LABELS_END);
	}
}

static void add_sessions(const struct adding *adding)
{
	const json_t *session;
	size_t i;

	for (int state = 0; state < STATUS_SESSION_STATES; state++)
		add(adding->metrics, gpubroker_sessions, 0, "broker", adding->broker, "state",
		    session_state_name((enum status_session_state)state), LABELS_END);
	json_array_foreach(json_object_get(adding->shown->text, "sessions"), i, session)
		add(adding->metrics, gpubroker_sessions, 1, "broker", adding->broker, "state",
		    text_of(session, "state"), LABELS_END);
}

static bool is_in_bytes(const char *resource)
{
	return !strcmp(resource, resource_key(RESOURCE_BYTES)) || !strcmp(resource, resource_key(RESOURCE_QUEUED));
}

static void add_amounts(const struct adding *adding, const char *user, json_t *amounts, int pieces, int bytes)
{
	const char *resource;
	json_t *amount;

	json_object_foreach(amounts, resource, amount)
		add(adding->metrics, is_in_bytes(resource) ? bytes : pieces, (uint64_t)json_integer_value(amount),
		    "broker", adding->broker, "user", user, "resource", resource, LABELS_END);
}

static void add_users(const struct adding *adding)
{
	const json_t *user;
	size_t i;

	json_array_foreach(json_object_get(adding->shown->text, "users"), i, user) {
		const char *name = user_of(adding->metrics, number_of(user, "uid"));

		add_amounts(adding, name, json_object_get(user, "used"), gpubroker_user_used,
			    gpubroker_user_used_bytes);
		add_amounts(adding, name, json_object_get(user, "quota"), gpubroker_user_quota,
			    gpubroker_user_quota_bytes);
	}
}

static void add_counters(const struct adding *adding)
{
	const struct counters *counters = &adding->shown->header.counters;

#define COUNTER_ADD(name, text) \
	add(adding->metrics, gpubroker_##name, counters->name, "broker", adding->broker, LABELS_END);
	COUNTERS(COUNTER_ADD)
#undef COUNTER_ADD
}

/*
 * Adds the samples of a histogram. A bucket of --json counts only its own values; a bucket of the metrics also counts
 * those of all buckets before it.
 */
static void add_histogram(const struct adding *adding, enum histogram_id id, int family)
{
	const json_t *times = json_object_get(json_object_get(adding->shown->text, "times"), histogram_key(id));
	const json_t *buckets = json_object_get(times, "microseconds");
	char bound[24], seconds[32];
	uint64_t count = 0;

	if (!times)
		return;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		uint64_t us = histogram_bound(id, i);

		snprintf(bound, sizeof bound, "%" PRIu64, us);
		snprintf(seconds, sizeof seconds, "%.12g", (double)us / 1e6);
		count += number_of(buckets, us ? bound : "more");
		add_of_histogram(adding->metrics, family, "_bucket", count, "broker", adding->broker, "le",
				 us ? seconds : "+Inf", LABELS_END);
	}
	add_of_histogram(adding->metrics, family, "_count", count, "broker", adding->broker, LABELS_END);
	add_of_histogram(adding->metrics, family, "_sum", number_of(times, "nanoseconds"), "broker", adding->broker,
			 LABELS_END);
}

static void add_histograms(const struct adding *adding)
{
#define HISTOGRAM_ADD(id, key, first, text) add_histogram(adding, HISTOGRAM_##id, gpubroker_##key##_seconds);
	HISTOGRAMS_KNOWN(HISTOGRAM_ADD)
#undef HISTOGRAM_ADD
}

/*
 * Adds the samples of a broker. A dead or unreadable broker has only its state: a dead broker's memory is free,
 * whatever its file says.
 */
static void add_shown(struct metrics *metrics, const struct shown *shown)
{
	struct adding adding = { .metrics = metrics, .shown = shown, .broker = shown->instance };

	add(metrics, gpubroker_up, shown->state == SHOWN_RUNNING, "broker", shown->instance, "state",
	    shown_state_name(shown->state), LABELS_END);
	if (!shown->text || shown->state == SHOWN_DEAD)
		return;
	add_broker(&adding);
	add_owner(&adding);
	add_restarts(&adding);
	add_devices(&adding);
	add_sessions(&adding);
	add_counters(&adding);
	add_histograms(&adding);
	add_buffers(&adding);
	add_users(&adding);
}

/*
 * Reads a broker's status and adds its samples. named: the caller named the broker, so it gets the state "absent" if
 * there is none.
 */
static void add_instance(struct metrics *metrics, const char *instance, uint32_t owner, bool named)
{
	struct shown shown;
	int error = shown_read(&shown, instance);

	if (!error && owner != METRICS_ANY_OWNER && shown.owner != owner) {
		shown_free(&shown);
		error = -ENOENT;
	}
	metrics->added = 0;
	metrics->omitted = 0;
	if (error == -ENOENT && named)
		add(metrics, gpubroker_up, 0, "broker", instance, "state", "absent", LABELS_END);
	if (error == -ENOENT)
		return;
	if (error)
		shown_refused(&shown, instance);
	add_shown(metrics, &shown);
	shown_free(&shown);
	users_forget(metrics);
	metrics->added = 0;
	add(metrics, gpubroker_omitted_samples, metrics->omitted, "broker", instance, LABELS_END);
}

/* ---- the text ---- */

/*
 * Writes the head lines of a family of samples. Its name has the suffix of its samples for Prometheus, and no suffix
 * for OpenMetrics.
 */
static bool head_write(FILE *to, enum metrics_format format, const struct family *family)
{
	static const char *const types[] = {
		[GAUGE] = "gauge", [COUNTER] = "counter", [HISTOGRAM] = "histogram", [INFO] = "info"
	};
	static const char *const suffixes[] = {
		[GAUGE] = "", [COUNTER] = "_total", [HISTOGRAM] = "", [INFO] = "_info"
	};
	bool old = format == METRICS_PROMETHEUS;
	const char *suffix = old ? suffixes[family->type] : "",
		   *type = types[old && family->type == INFO ? GAUGE : family->type];

	return fprintf(to, "# HELP %s%s %s\n# TYPE %s%s %s\n", family->name, suffix, family->help, family->name, suffix,
		       type) > 0 &&
	       (old || !*family->unit || fprintf(to, "# UNIT %s %s\n", family->name, family->unit) > 0);
}

static bool sample_write(FILE *to, const struct family *family, const struct sample *sample)
{
	if (sample->nanoseconds)
		return fprintf(to, "%s%s %" PRIu64 ".%09" PRIu64 "\n", family->name, sample->text,
			       sample->value / 1000000000, sample->value % 1000000000) > 0;
	return fprintf(to, "%s%s %" PRIu64 "\n", family->name, sample->text, sample->value) > 0;
}

/*
 * Writes a family and its samples. Returns false if a write failed, because a stream into memory reports errors nowhere
 * else.
 */
static bool family_write(FILE *to, enum metrics_format format, const struct family *family, const struct sample *sample)
{
	bool written = !sample || head_write(to, format, family);

	for (; sample && written; sample = sample->hh.next)
		written = sample_write(to, family, sample);
	return written;
}

static void add_instances(struct metrics *metrics, const struct instances *instances, uint32_t owner, bool named)
{
	for (size_t i = 0; i < instances->count && i < METRICS_BROKERS_MAX; i++)
		add_instance(metrics, instances->names[i], owner, named);
}

int metrics_write(FILE *to, enum metrics_format format, const struct metrics_wanted *wanted)
{
	const struct instances *named = wanted->instances.count ? &wanted->instances : NULL;
	struct metrics metrics = { 0 };
	struct instances found = { 0 };
	int error = named ? 0 : instances_find(&found);

	if (error)
		return error;
	tables_init();
	add(&metrics, gpubroker_build, 1, "version", PACKAGE_VERSION, LABELS_END);
	add_instances(&metrics, named ? named : &found, wanted->owner, named);
	if (metrics.no_memory)
		error = error_set(-ENOMEM, "out of memory");
	for (int i = 0; i < FAMILIES && !error; i++)
		if (!family_write(to, format, &families[i], metrics.samples[i]))
			error = error_set(-ENOSPC, "the metrics cannot be written: no memory, or no room for them");
	if (!error && format == METRICS_OPENMETRICS && fputs("# EOF\n", to) < 0)
		error = error_set(-ENOSPC, "the metrics cannot be written: no memory, or no room for them");
	instances_free(&found);
	metrics_deinit(&metrics);
	return error;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* commands.c - see commands.h */
#include "commands.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "broker/base/log.h"
#include "broker/show/ask.h"
#include "broker/show/table.h"
#include "client/client.h"
#include "client/clock.h"
#include "client/connect.h"
#include "client/manage.h"
#include "common/thread.h"
#include "create.h"
#include "doctor.h"
#include "events.h"
#include "load.h"
#include "save.h"
#include "view.h"

/* Logs text if error is not 0. Returns the exit status for the error. */
static enum ctl_exit complain(int error, const char *text)
{
	if (!error)
		return CTL_EXIT_DONE;
	log_say("%s", text);
	return error == -ETIMEDOUT ? CTL_EXIT_TIME : CTL_EXIT_REFUSED;
}

/* Combines two exit statuses: a refusal counts more than a timeout, a timeout more than success. */
static enum ctl_exit worse_of(enum ctl_exit a, enum ctl_exit b)
{
	if (a == CTL_EXIT_DONE || b == CTL_EXIT_REFUSED)
		return b;
	return a;
}

/* ---- create ---- */

static unsigned memory_flags(const struct ctl_options *options)
{
	return (options->dedicated ? GPUB_DEDICATED : 0) | (options->same_address ? GPUB_SAME_ADDRESS : 0);
}

static enum ctl_exit run_create(gpub_client *client, const struct ctl_options *options)
{
	struct create_order order = { .name = options->names[0],
				      .amount = options->amount,
				      .mode = options->mode,
				      .flags = (options->timeline ? GPUB_TIMELINE : 0) | memory_flags(options),
				      .wait_ms = options->wait_ms };

	order.amount.reserve = options->reserve;
	return complain(ctl_create(client, &order), error_text());
}

static enum ctl_exit run_resize(gpub_client *client, const struct ctl_options *options)
{
	/*
	 * -ENOMEM means a timeout, or that there can never be enough memory: the broker says the latter at once (see
	 * create.c)
	 */
	struct timespec late = client_deadline(options->wait_ms / 2);
	int error = gpub_resize(client, options->names[0], options->size, options->wait_ms);

	return complain(error == -ENOMEM && options->wait_ms && client_past(&late) ? -ETIMEDOUT : error, error_text());
}

/* ---- unlink, chmod, chown: one name after the other ---- */

static int unlink_one(gpub_client *client, const struct ctl_options *options, const char *name)
{
	(void)options;
	return gpub_unlink(client, name);
}

static int chmod_one(gpub_client *client, const struct ctl_options *options, const char *name)
{
	const struct mode_change *change = &options->change;
	gpub_info info = { .struct_size = sizeof info };
	int error = change->keep ? gpub_stat(client, name, &info) : 0;

	return error ? error : gpub_chmod(client, name, (info.mode & change->keep) | change->set);
}

static int chown_one(gpub_client *client, const struct ctl_options *options, const char *name)
{
	return gpub_chown(client, name, options->owner.user, options->owner.group);
}

static int seal_one(gpub_client *client, const struct ctl_options *options, const char *name)
{
	(void)options;
	return gpub_seal(client, name);
}

static enum ctl_exit run_rename(gpub_client *client, const struct ctl_options *options)
{
	return complain(gpub_rename(client, options->names[0], options->names[1], options->replace ? GPUB_REPLACE : 0),
			error_text());
}

static enum ctl_exit run_each(gpub_client *client, const struct ctl_options *options)
{
	enum ctl_exit worst = CTL_EXIT_DONE;

	for (char **name = options->names; *name; name++) {
		int error = options->command->each(client, options, *name);

		worst = worse_of(worst, complain(error, error_text()));
	}
	return worst;
}

/* ---- drain: all names at the same time ---- */

/*
 * The drain of one name. Each drain has a thread of its own, so that all names are unlinked before the first wait ends.
 */
struct drain {
	pthread_t    thread; /* the drain's thread; valid if `started` */
	gpub_client *client;
	const char  *name;
	int          timeout_ms, error;
	bool         started; /* false: no thread could be started, so the drain was done at once */
	char         text[ERROR_TEXT_MAX]; /* the error message of the drain */
};

static void *drain_main(void *argument)
{
	struct drain *drain = argument;

	drain->error = gpub_drain(drain->client, drain->name, drain->timeout_ms);
	snprintf(drain->text, sizeof drain->text, "%s", gpub_strerror_last());
	return NULL;
}

static void say_holders_in(const json_t *buffers, const char *name)
{
	char text[TABLE_HOLDER_MAX];
	json_t *buffer, *holder;
	size_t i, j;

	json_array_foreach(buffers, i, buffer) {
		const char *state = json_string_value(json_object_get(buffer, "state"));
		const char *called = json_string_value(json_object_get(buffer, "name"));

		if (!state || !called || strcmp(state, "draining") || strcmp(called, name))
			continue;
		json_array_foreach(json_object_get(buffer, "holders"), j, holder)
			log_say("'%s': %s", name, table_holder(holder, text));
	}
}

/* Logs the holders of all draining buffers that had the name last, as far as this user may see them. */
static void say_holders(gpub_client *client, const char *name)
{
	struct shown shown;

	if (shown_ask(&shown, client))
		return;
	say_holders_in(json_object_get(shown.text, "buffers"), name);
	shown_free(&shown);
}

static void drain_start(struct drain *drain, gpub_client *client, const struct ctl_options *options, const char *name)
{
	drain->client = client;
	drain->name = name;
	drain->timeout_ms = options->timeout_ms;
	drain->started = !thread_start(&drain->thread, drain_main, drain);
	if (!drain->started)
		drain_main(drain);
}

static enum ctl_exit drain_end(struct drain *drain)
{
	enum ctl_exit code;

	if (drain->started)
		pthread_join(drain->thread, NULL);
	code = complain(drain->error, drain->text);
	if (code == CTL_EXIT_TIME)
		say_holders(drain->client, drain->name);
	return code;
}

static enum ctl_exit run_drain(gpub_client *client, const struct ctl_options *options)
{
	enum ctl_exit worst = CTL_EXIT_DONE;
	struct drain *drains;
	size_t count = 0;

	while (options->names[count])
		count++;
	drains = calloc(count, sizeof *drains);
	if (!drains)
		return complain(-ENOMEM, "out of memory");
	for (size_t i = 0; i < count; i++)
		drain_start(&drains[i], client, options, options->names[i]);
	for (size_t i = 0; i < count; i++)
		worst = worse_of(worst, drain_end(&drains[i]));
	free(drains);
	return worst;
}

/* ---- what this user may see ---- */

static enum ctl_exit run_list(gpub_client *client, const struct ctl_options *options)
{
	return complain(view_list(client, options->pattern, options->json), error_text());
}

static enum ctl_exit run_stat(gpub_client *client, const struct ctl_options *options)
{
	return complain(view_stat(client, options->names[0], options->json), error_text());
}

static enum ctl_exit run_sessions(gpub_client *client, const struct ctl_options *options)
{
	return complain(view_sessions(client, options->json), error_text());
}

static enum ctl_exit run_quota(gpub_client *client, const struct ctl_options *options)
{
	return complain(view_quota(client, options->json), error_text());
}

/* ---- ticket, evict ---- */

static enum ctl_exit run_ticket(gpub_client *client, const struct ctl_options *options)
{
	gpub_ticket_terms terms = GPUB_TICKET_TERMS_INIT;
	char text[GPUB_TICKET_MAX];
	int error;

	terms.flags = options->many ? 0 : GPUB_TICKET_ONCE;
	terms.user = options->user;
	terms.lifetime_ms = options->lifetime_ms;
	error = gpub_ticket_issue(client, options->names[0], options->rights, &terms, text);
	if (!error)
		puts(text);
	sodium_memzero(text, sizeof text);
	return complain(error, error_text());
}

/*
 * Kills an evicted session's process by its pidfd, because its pid may be reused. Succeeds if the process is dead
 * already.
 */
static int process_kill(int pidfd, uint64_t session)
{
	if (!syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) || errno == ESRCH)
		return 0;
	return error_set(-errno, "session %llu is cut off, and its process cannot be killed: %m",
			 (unsigned long long)session);
}

static enum ctl_exit run_evict(gpub_client *client, const struct ctl_options *options)
{
	int pidfd, error = client_evict(client, options->session, &pidfd);

	if (error)
		return complain(error, error_text());
	if (options->kill)
		error = process_kill(pidfd, options->session);
	close(pidfd);
	return complain(error, error_text());
}

/* ---- commands with a connection of their own, or none ---- */

static enum ctl_exit run_load(const struct ctl_options *options)
{
	const struct load_order order = { .address = options->address,
					  .name = options->names[0],
					  .file = options->file,
					  .device = options->amount.device,
					  .mode = options->mode,
					  .flags = memory_flags(options),
					  .reserve = options->reserve,
					  .wait_ms = options->wait_ms,
					  .replace = options->replace,
					  .seal = options->seal,
					  .quiet = options->quiet };

	return complain(ctl_load(&order), error_text());
}

static enum ctl_exit run_save(const struct ctl_options *options)
{
	const struct save_order order = {
		.address = options->address, .name = options->names[0], .file = options->file, .quiet = options->quiet,
	};

	return complain(ctl_save(&order), error_text());
}

static enum ctl_exit run_events(const struct ctl_options *options)
{
	const struct events_wanted wanted = { .instance = options->instance,
					      .address = options->address,
					      .since_ms = options->since_ms,
					      .buffer = options->buffer,
					      .kind = options->kind,
					      .pid = options->pid,
					      .user = options->user,
					      .json = options->json,
					      .follow = options->follow };

	return complain(ctl_events(&wanted), error_text());
}

static enum ctl_exit run_doctor(const struct ctl_options *options)
{
	return ctl_doctor(options->address, options->json) ? CTL_EXIT_REFUSED : CTL_EXIT_DONE;
}

/* ---- the table ---- */

#define VALUE_AT(argument, take, field) argument, take, offsetof(struct ctl_options, field)

const struct ctl_command ctl_commands[] = {
	{ "create", "NAME SIZE[@DEVICE]", "make a buffer of zeros; SIZE in bytes, or with K, M, G", 2, 2,
	  VALUE_AT(1, take_amount, amount), .run = run_create },
	{ "load", "NAME FILE", "make a buffer with the bytes of a file; - is stdin", 2, 2, VALUE_AT(1, take_text, file),
	  .local = run_load },
	{ "save", "NAME FILE", "write the bytes of a buffer to a file; - is stdout", 2, 2, VALUE_AT(1, take_text, file),
	  .local = run_save },
	{ "resize", "NAME SIZE", "give one that was created with a reserve another size", 2, 2,
	  VALUE_AT(1, take_size_or_0, size), .run = run_resize },
	{ "unlink", "NAME ...", "take names away; memory is freed when nobody can touch it", 1, INT_MAX,
	  .each = unlink_one },
	{ "chmod", "MODE NAME ...", "change who may acquire them: 0640, or g+r,o-w", 2, INT_MAX,
	  VALUE_AT(0, take_mode_change, change), .each = chmod_one },
	{ "chown", "USER[:GROUP] NAME ...", "give them to another user, group (:GROUP) or both", 2, INT_MAX,
	  VALUE_AT(0, take_owner, owner), .each = chown_one },
	{ "seal", "NAME ...", "refuse leases that write from now on", 1, INT_MAX, .each = seal_one },
	{ "rename", "NAME NEW", "give it another name in one step; see --replace", 2, 2, .run = run_rename },
	{ "drain", "NAME ...", "unlink them, and wait until their memory is freed", 1, INT_MAX, .run = run_drain },
	{ "ticket", "NAME", "print a ticket for it: a secret, for gpub_redeem(3)", 1, 1, .run = run_ticket },
	{ "list", "[PATTERN]", "show the buffers that are yours or that you use", 0, 1, VALUE_AT(0, take_text, pattern),
	  .run = run_list },
	{ "stat", "NAME", "show all of one, and who holds it", 1, 1, .run = run_stat },
	{ "sessions", "", "show your sessions, and those that hold your buffers", 0, 0, .run = run_sessions },
	{ "quota", "", "show what you have, and how much you may have", 0, 0, .run = run_quota },
	{ "evict", "SESSION", "cut a session off; sessions numbers them", 1, 1, VALUE_AT(0, take_session, session),
	  .run = run_evict },
	{ "events", "[BROKER]", "show what happened in it, oldest first", 0, 1, VALUE_AT(0, take_text, instance),
	  .local = run_events },
	{ "doctor", "", "look for what keeps a program here from using the broker", 0, 0, .local = run_doctor },
	{ 0 },
};

enum ctl_exit ctl_command_run(const struct ctl_options *options)
{
	const struct ctl_command *command = options->command;
	gpub_client *client;
	enum ctl_exit code;
	int error;

	if (command->local)
		return command->local(options);
	error = client_connect_bare(&client, options->address);
	if (error)
		return complain(error, error_text());
	code = (command->run ? command->run : run_each)(client, options);
	gpub_disconnect(client);
	return code;
}

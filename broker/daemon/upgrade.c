/* SPDX-License-Identifier: Apache-2.0 */
/* upgrade.c - see upgrade.h */
#include "upgrade.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <event2/event.h>

#include "broker/base/log.h"
#include "broker/core/keep.h"
#include "broker/keeper/child.h"
#include "broker/ledger/ledger.h"
#include "broker/owner/order.h"
#include "common/error.h"

#define NAME          "brokerd" /* an exec by a descriptor names the process after the number */
#define OWN_PATH      "/proc/self/exe"
#define REPLACED      " (deleted)" /* what the kernel adds to the path of a file that was replaced */
#define TRIAL_SECONDS 30
#define CANNOT_EXEC   127 /* exit status of a child that could not execute the program */

static void drop(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* ---- what was passed on ---- */

int upgrade_open(struct upgrade *upgrade)
{
	int passed = handover_take(&upgrade->from);

	upgrade->own = open(OWN_PATH, O_PATH | O_CLOEXEC);
	upgrade->before = upgrade->next = -1;
	if (passed <= 0)
		return passed;
	prctl(PR_SET_NAME, NAME);
	upgrade->before = handover_fd(&upgrade->from, HANDOVER_IMAGE);
	return 1;
}

void upgrade_close(struct upgrade *upgrade)
{
	if (upgrade->trial > 0) {
		kill(upgrade->trial, SIGKILL);
		waitpid(upgrade->trial, NULL, 0);
	}
	if (upgrade->late)
		event_free(upgrade->late);
	upgrade->late = NULL;
	drop(&upgrade->own);
	drop(&upgrade->before);
	drop(&upgrade->next);
	handover_free(&upgrade->from);
}

bool upgrade_is_trial(const struct upgrade *upgrade)
{
	return upgrade->from.count && handover_value(&upgrade->from, HANDOVER_PURPOSE) == HANDOVER_TRIAL;
}

int upgrade_kept(const struct upgrade *upgrade, uint64_t key)
{
	const struct handover *from = &upgrade->from;

	for (size_t i = 0; i < from->count; i++)
		if (from->entry[i].kind == HANDOVER_KEPT && from->entry[i].value == key)
			return from->entry[i].fd;
	return -1;
}

int upgrade_check(const struct upgrade *upgrade)
{
	uint64_t speaks = handover_value(&upgrade->from, HANDOVER_OWNER_SPEAKS);
	int ledger = upgrade_kept(upgrade, keep_key(KEPT_LEDGER, KEPT_ONLY)), error;
	struct ledger_view view;

	if (speaks != OWNER_VERSION)
		return error_set(-EPROTO, "the process that owns the device memory speaks version %llu, and this "
					  "brokerd version %d: restart brokerd, which ends that process",
				 (unsigned long long)speaks, OWNER_VERSION);
	error = ledger_open(&view, ledger);
	if (error)
		return error;
	ledger_close(&view);
	return 0;
}

/* ---- the trial ---- */

/* Passes on again what was passed on to this program, but for its purpose and the program of before. */
static void pack_again(const struct upgrade *upgrade, struct handover *handover)
{
	for (size_t i = 0; i < upgrade->from.count; i++) {
		const struct handover_entry *entry = &upgrade->from.entry[i];

		if (entry->kind != HANDOVER_PURPOSE && entry->kind != HANDOVER_IMAGE)
			handover_add(handover, (enum handover_kind)entry->kind, entry->value, entry->fd);
	}
}

static void pack(struct upgrade *upgrade, struct handover *handover, enum handover_purpose purpose)
{
	*handover = (struct handover){ 0 };
	handover_add(handover, HANDOVER_PURPOSE, purpose, -1);
	if (purpose == HANDOVER_GOES_ON && upgrade->own >= 0)
		handover_add(handover, HANDOVER_IMAGE, 0, upgrade->own);
	if (upgrade->pack(upgrade->context, handover))
		handover_add(handover, HANDOVER_OWNER_SPEAKS, OWNER_VERSION, -1);
	else
		pack_again(upgrade, handover);
}

/* Executes the program. Returns only if that fails: a negative errno with the error message set. */
static int execute(struct upgrade *upgrade, int program, enum handover_purpose purpose)
{
	struct handover handover;
	int error;

	pack(upgrade, &handover, purpose);
	error = handover_exec(&handover, program, upgrade->argv);
	handover_free(&handover);
	return error;
}

/* Opens the program that lies now where this one was started. Returns 0, or a negative errno with the message set. */
static int find_next(struct upgrade *upgrade)
{
	char path[PATH_MAX];
	ssize_t length = readlink(OWN_PATH, path, sizeof path - 1);
	char *replaced;

	if (length < 0)
		return error_set(-errno, "where brokerd lies cannot be told: %m");
	path[length] = 0;
	replaced = strstr(path, REPLACED);
	if (replaced && !replaced[strlen(REPLACED)])
		*replaced = 0;
	drop(&upgrade->next);
	upgrade->next = open(path, O_PATH | O_CLOEXEC);
	return upgrade->next < 0 ? error_set(-errno, "%s cannot be opened: %m", path) : 0;
}

static void on_late(evutil_socket_t fd, short what, void *argument)
{
	struct upgrade *upgrade = argument;

	(void)fd;
	(void)what;
	kill(upgrade->trial, SIGKILL); /* upgrade_reaped() follows */
}

static int begin_trial(struct upgrade *upgrade, struct event_base *base)
{
	const struct timeval most = { .tv_sec = TRIAL_SECONDS };
	int error = find_next(upgrade);
	pid_t pid;

	if (!error && !upgrade->late)
		upgrade->late = evtimer_new(base, on_late, upgrade);
	if (!error && (!upgrade->late || event_add(upgrade->late, &most)))
		error = error_set(-ENOMEM, "out of memory");
	if (error)
		return error;
	pid = child_fork(NULL);
	if (!pid) {
		execute(upgrade, upgrade->next, HANDOVER_TRIAL);
		log_say("%s", error_text());
		_exit(CANNOT_EXEC);
	}
	if (pid > 0)
		upgrade->trial = pid;
	else
		event_del(upgrade->late);
	return pid < 0 ? error_set(-errno, "no process can be forked: %m") : 0;
}

void upgrade_ask(struct upgrade *upgrade, struct event_base *base)
{
	if (upgrade->trial)
		return;
	if (begin_trial(upgrade, base))
		log_say("there is no upgrade, and all goes on as before: %s", error_text());
}

void upgrade_reaped(struct upgrade *upgrade, pid_t pid, int status)
{
	if (pid != upgrade->trial)
		return;
	upgrade->trial = 0;
	event_del(upgrade->late);
	if (WIFSIGNALED(status))
		log_say("there is no upgrade, and all goes on as before: the new brokerd was ended by signal %d when "
			"it was tried", WTERMSIG(status));
	else if (status)
		log_say("there is no upgrade, and all goes on as before: the new brokerd cannot go on, as it says");
	else if (upgrade->end_broker(upgrade->context))
		log_say("there is no upgrade, and all goes on as before: %s", error_text());
}

/* ---- the exec ---- */

void upgrade_exec(struct upgrade *upgrade)
{
	execute(upgrade, upgrade->next, HANDOVER_GOES_ON);
	log_say("there is no upgrade, and all goes on as before: %s", error_text());
}

void upgrade_back(struct upgrade *upgrade)
{
	if (upgrade->before < 0)
		return;
	log_say("the brokers of the new brokerd do not come up: the one of before goes on");
	execute(upgrade, upgrade->before, HANDOVER_BACK);
	log_say("the brokerd of before cannot go on: %s", error_text());
	drop(&upgrade->before);
}

void upgrade_ready(struct upgrade *upgrade)
{
	drop(&upgrade->before);
}

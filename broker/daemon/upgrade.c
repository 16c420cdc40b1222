/* SPDX-License-Identifier: Apache-2.0 */
/* upgrade.c - see upgrade.h */
#include "upgrade.h"

#include <errno.h>
#include <fcntl.h>
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
#define REPLACED      " (deleted)" /* what the kernel adds to the path of a file that was replaced or removed */
#define TRIAL_SECONDS 30
#define CANNOT_EXEC   127 /* exit status of a child that could not execute the program */
#define NO_UPGRADE    "there is no upgrade, and all goes on as before: "

static void drop(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* ---- begin and end ---- */

/* Stores where this program lies. */
static void path_read(char path[PATH_MAX])
{
	ssize_t length = readlink(OWN_PATH, path, PATH_MAX - 1), suffix = (ssize_t)strlen(REPLACED);

	path[length > 0 ? length : 0] = 0;
	if (length > suffix && !strcmp(path + length - suffix, REPLACED))
		path[length - suffix] = 0;
}

int upgrade_open(struct upgrade *upgrade)
{
	int passed = handover_take(&upgrade->from);

	path_read(upgrade->path);
	upgrade->before = upgrade->next = -1;
	if (passed <= 0)
		return passed;
	prctl(PR_SET_NAME, NAME);
	upgrade->before = handover_fd(&upgrade->from, HANDOVER_IMAGE);
	return 1;
}

void upgrade_stop(struct upgrade *upgrade)
{
	if (upgrade->trial > 0) {
		kill(upgrade->trial, SIGKILL);
		waitpid(upgrade->trial, NULL, 0);
	}
	if (upgrade->late)
		event_free(upgrade->late);
	upgrade->trial = 0;
	upgrade->late = NULL;
	upgrade->asked = false;
}

void upgrade_close(struct upgrade *upgrade)
{
	drop(&upgrade->before);
	drop(&upgrade->next);
	handover_free(&upgrade->from);
}

/* ---- what was passed on ---- */

bool upgrade_is_trial(const struct upgrade *upgrade)
{
	return handover_value(&upgrade->from, HANDOVER_PURPOSE) == HANDOVER_TRIAL;
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
	struct ledger_view view;
	int error;

	if (speaks != OWNER_VERSION)
		return error_set(-EPROTO, "the process that owns the device memory speaks version %llu, and this "
					  "brokerd version %d: restart brokerd, which ends that process",
				 (unsigned long long)speaks, OWNER_VERSION);
	if (handover_fd(&upgrade->from, HANDOVER_BOARD) < 0 ||
	    upgrade_kept(upgrade, keep_key(KEPT_LISTENER, KEPT_ONLY)) < 0)
		return error_set(-EPROTO, "the socket or the board is not passed on: restart brokerd");
	error = ledger_open(&view, upgrade_kept(upgrade, keep_key(KEPT_LEDGER, KEPT_ONLY)));
	if (!error)
		ledger_close(&view);
	return error;
}

/* ---- passing on ---- */

/* Passes on again what was passed on to this program. Its purpose and the previous program's file are left out. */
static void pack_again(const struct upgrade *upgrade, struct handover *handover)
{
	for (size_t i = 0; i < upgrade->from.count; i++) {
		const struct handover_entry *entry = &upgrade->from.entry[i];

		if (entry->kind != HANDOVER_PURPOSE && entry->kind != HANDOVER_IMAGE)
			handover_add(handover, (enum handover_kind)entry->kind, entry->value, entry->fd);
	}
}

static void pack(struct upgrade *upgrade, struct handover *handover)
{
	if (upgrade->pack(upgrade->context, handover))
		handover_add(handover, HANDOVER_OWNER_SPEAKS, OWNER_VERSION, -1);
	else
		pack_again(upgrade, handover);
}

static bool is_for_trial(const struct handover_entry *entry)
{
	return entry->kind != HANDOVER_KEPT || entry->value == keep_key(KEPT_LEDGER, KEPT_ONLY) ||
	       entry->value == keep_key(KEPT_LISTENER, KEPT_ONLY);
}

/* Removes what upgrade_check() does not need: a trial has no socket of a client, no key and no memory. */
static void keep_for_trial(struct handover *handover)
{
	size_t count = 0;

	for (size_t i = 0; i < handover->count; i++)
		if (is_for_trial(&handover->entry[i]))
			handover->entry[count++] = handover->entry[i];
	handover->count = count;
}

/* Executes the file. image: this program's, to go back to; -1: none. Returns only if that fails; sets the message. */
static void execute(struct upgrade *upgrade, int file, enum handover_purpose purpose, int image)
{
	struct handover handover = { 0 };

	handover_add(&handover, HANDOVER_PURPOSE, purpose, -1);
	if (image >= 0)
		handover_add(&handover, HANDOVER_IMAGE, 0, image);
	pack(upgrade, &handover);
	if (purpose == HANDOVER_TRIAL)
		keep_for_trial(&handover);
	handover_exec(&handover, file, upgrade->argv);
	handover_free(&handover);
}

/* ---- the trial ---- */

static void on_late(evutil_socket_t fd, short what, void *argument)
{
	struct upgrade *upgrade = argument;

	(void)fd;
	(void)what;
	kill(upgrade->trial, SIGKILL); /* upgrade_reaped() follows */
}

static _Noreturn void trial_main(struct upgrade *upgrade, pid_t parent)
{
	if (!prctl(PR_SET_PDEATHSIG, SIGKILL) && getppid() == parent) {
		execute(upgrade, upgrade->next, HANDOVER_TRIAL, -1);
		log_say("%s", error_text());
	}
	_exit(CANNOT_EXEC);
}

static int timer_begin(struct upgrade *upgrade)
{
	const struct timeval most = { .tv_sec = TRIAL_SECONDS };

	if (!upgrade->late)
		upgrade->late = evtimer_new(upgrade->base, on_late, upgrade);
	return upgrade->late && !event_add(upgrade->late, &most) ? 0 : error_set(-ENOMEM, "out of memory");
}

static int trial_begin(struct upgrade *upgrade)
{
	pid_t parent = getpid(), pid;
	int error = timer_begin(upgrade);

	if (error)
		return error;
	drop(&upgrade->next);
	upgrade->next = open(upgrade->path, O_PATH | O_CLOEXEC);
	if (upgrade->next < 0)
		return error_set(-errno, "%s cannot be opened: %m", upgrade->path);
	pid = child_fork(NULL);
	if (!pid)
		trial_main(upgrade, parent);
	if (pid < 0)
		return error_set(-errno, "no process can be forked: %m");
	upgrade->trial = pid;
	return 0;
}

/* Begins a trial if one is asked for and can begin now. */
static void go(struct upgrade *upgrade)
{
	if (!upgrade->asked || upgrade->trial || upgrade->ending || !upgrade->ready)
		return;
	upgrade->asked = false;
	if (trial_begin(upgrade)) {
		log_say(NO_UPGRADE "%s", error_text());
		if (upgrade->late)
			event_del(upgrade->late);
	}
}

void upgrade_ask(struct upgrade *upgrade, struct event_base *base)
{
	upgrade->base = base;
	upgrade->asked = true;
	go(upgrade);
}

void upgrade_ready(struct upgrade *upgrade)
{
	upgrade->ready = true;
	drop(&upgrade->before);
	go(upgrade);
}

/* The new program can go on. */
static void trial_passed(struct upgrade *upgrade)
{
	int error = upgrade->end_broker(upgrade->context);

	upgrade->ending = !error;
	if (error == -EAGAIN) {
		upgrade->ready = false; /* upgrade_ready() goes on */
		upgrade->asked = true;
	} else if (error)
		log_say(NO_UPGRADE "%s", error_text());
}

void upgrade_reaped(struct upgrade *upgrade, pid_t pid, int status)
{
	if (pid != upgrade->trial)
		return;
	upgrade->trial = 0;
	event_del(upgrade->late);
	if (WIFEXITED(status) && WEXITSTATUS(status) == UPGRADE_YES)
		trial_passed(upgrade);
	else if (WIFSIGNALED(status))
		log_say(NO_UPGRADE "the new brokerd was ended by signal %d when it was tried", WTERMSIG(status));
	else
		log_say(NO_UPGRADE "the new brokerd cannot go on, as it says");
	go(upgrade);
}

/* ---- the exec ---- */

void upgrade_exec(struct upgrade *upgrade)
{
	int image;

	if (upgrade->asked)
		kill(getpid(), SIGUSR2); /* is pending over the exec, for the new program */
	upgrade->asked = false;
	image = open(OWN_PATH, O_PATH | O_CLOEXEC); /* the file that runs, also where its path leads to another one */
	execute(upgrade, upgrade->next, HANDOVER_GOES_ON, image);
	upgrade->ending = false;
	log_say(NO_UPGRADE "%s", error_text());
	drop(&image);
}

void upgrade_back(struct upgrade *upgrade)
{
	if (upgrade->before < 0)
		return;
	log_say("the new brokerd does not come up: the previous one goes on");
	execute(upgrade, upgrade->before, HANDOVER_GOES_ON, -1);
	log_say("the previous brokerd cannot go on: %s", error_text());
	drop(&upgrade->before);
}

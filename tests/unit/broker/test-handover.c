/* SPDX-License-Identifier: Apache-2.0 */
/* test-handover.c - what a program passes on to the one that it executes (keeper/handover.h, daemon/upgrade.h). */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <event2/event.h>

#include "broker/core/keep.h"
#include "broker/daemon/upgrade.h"
#include "broker/keeper/handover.h"
#include "broker/ledger/ledger.h"
#include "broker/owner/order.h"
#include "common/error.h"

#define VARIABLE "GPUBROKER_HANDOVER"
#define UNKNOWN  4711 /* a kind of a later release */
#define MANY     3000 /* entries without a descriptor */

/* ---- the program that is executed: this one, with an argument ---- */

#define MUST(condition)                                                    \
	do {                                                               \
		if (!(condition)) {                                        \
			fprintf(stderr, "# line %d: %s\n", __LINE__, #condition); \
			exit(1);                                           \
		}                                                          \
	} while (0)

static int second(void)
{
	struct handover handover;
	char text[8] = "";
	int fd;

	MUST(handover_take(&handover) == 1);
	MUST(!getenv(VARIABLE));
	MUST(handover.count == 3 + MANY);
	MUST(handover_value(&handover, HANDOVER_BROKERS) == 0x123456789abcdef0);
	MUST(handover_fd(&handover, HANDOVER_BROKERS) == -1);
	MUST(!handover_find(&handover, HANDOVER_IMAGE) && handover_fd(&handover, HANDOVER_IMAGE) == -1);
	fd = handover_fd(&handover, HANDOVER_KEPT);
	MUST(handover_value(&handover, HANDOVER_KEPT) == 7);
	MUST(fcntl(fd, F_GETFD) == FD_CLOEXEC);
	MUST(pread(fd, text, sizeof text, 0) == 5 && !strcmp(text, "kept\n"));
	handover_free(&handover);
	MUST(handover_take(&handover) == 0 && !handover.count);
	return 0;
}

static int file(void)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_true(fd >= 0 && write(fd, "kept\n", 5) == 5);
	return fd;
}

static void fill(struct handover *handover, int fd)
{
	*handover = (struct handover){ 0 };
	handover_add(handover, HANDOVER_KEPT, 7, fd);
	handover_add(handover, HANDOVER_BROKERS, 0x123456789abcdef0, -1);
	handover_add(handover, (enum handover_kind)UNKNOWN, 1, -1);
	for (unsigned i = 0; i < MANY; i++)
		handover_add(handover, HANDOVER_PURPOSE, i, -1);
	assert_false(handover->failed);
}

static void test_what_is_passed_on_arrives(void **state)
{
	char name[] = "test-handover", word[] = "second", *argv[] = { name, word, NULL };
	struct handover handover;
	int fd = file(), program = open("/proc/self/exe", O_PATH | O_CLOEXEC), status;
	pid_t pid;

	(void)state;
	fill(&handover, fd);
	pid = fork();
	if (!pid) {
		handover_exec(&handover, program, argv);
		_exit(99);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	handover_free(&handover);
	close(program);
	close(fd);
}

static void test_an_exec_that_fails_changes_nothing(void **state)
{
	char name[] = "test-handover", *argv[] = { name, NULL };
	struct handover handover;
	int fd = file(), none = open("/dev/null", O_PATH | O_CLOEXEC), next = dup(none);

	(void)state;
	close(next);
	fill(&handover, fd);
	assert_int_equal(handover_exec(&handover, none, argv), -EACCES);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_null(getenv(VARIABLE));
	handover.failed = true;
	assert_int_equal(handover_exec(&handover, none, argv), -ENOMEM);
	assert_int_equal(dup(none), next); /* no descriptor is left */
	close(next);
	handover_free(&handover);
	close(none);
	close(fd);
}

static int take_from(int fd, pid_t pid)
{
	struct handover handover;
	char text[40];
	int result;

	snprintf(text, sizeof text, "%d %d", fd, (int)pid);
	setenv(VARIABLE, text, 1);
	result = handover_take(&handover);
	assert_null(getenv(VARIABLE));
	if (result == 1)
		handover_free(&handover);
	assert_null(handover.entry);
	return result;
}

static void test_what_is_no_handover_is_refused(void **state)
{
	struct handover handover;

	(void)state;
	assert_int_equal(take_from(file(), getpid()), -EBADMSG); /* no whole entries */
	assert_int_equal(take_from(999, getpid()), -EBADMSG);
	assert_int_equal(take_from(memfd_create("empty", MFD_CLOEXEC), getpid()), 1);
	assert_int_equal(take_from(0, getppid()), 0); /* of a parent */
	setenv(VARIABLE, "nonsense", 1);
	assert_int_equal(handover_take(&handover), 0);
	assert_null(getenv(VARIABLE));
}

/* ---- whether a program can go on ---- */

static void test_a_program_goes_on_with_what_it_knows_alone(void **state)
{
	struct upgrade upgrade = { .before = -1, .next = -1 };
	struct handover *from = &upgrade.from;
	struct ledger ledger;

	(void)state;
	assert_int_equal(ledger_create(&ledger, 1), 0);
	handover_add(from, HANDOVER_PURPOSE, HANDOVER_TRIAL, -1);
	handover_add(from, HANDOVER_OWNER_SPEAKS, OWNER_VERSION, -1);
	handover_add(from, HANDOVER_KEPT, keep_key(KEPT_LEDGER, KEPT_ONLY), ledger_fd(&ledger));
	handover_add(from, HANDOVER_KEPT, keep_key(KEPT_LISTENER, KEPT_ONLY), 0);
	handover_add(from, HANDOVER_BOARD, 0, 0);
	assert_true(upgrade_is_trial(&upgrade));
	assert_int_equal(upgrade_check(&upgrade), 0);
	from->entry[3].value++; /* a broker has not put its socket */
	assert_int_equal(upgrade_check(&upgrade), -EPROTO);
	from->entry[3].value--;
	from->entry[4].fd = -1;
	assert_int_equal(upgrade_check(&upgrade), -EPROTO);
	from->entry[4].fd = 0;
	from->entry[1].value = OWNER_VERSION + 1;
	assert_int_equal(upgrade_check(&upgrade), -EPROTO);
	assert_non_null(strstr(error_text(), "restart brokerd"));
	from->entry[1].value = OWNER_VERSION;
	from->entry[2].fd = file(); /* a ledger of a format that this program does not know */
	assert_int_equal(upgrade_check(&upgrade), -EBADMSG);
	close(from->entry[2].fd);
	from->entry[0].value = HANDOVER_GOES_ON;
	assert_false(upgrade_is_trial(&upgrade));
	ledger_destroy(&ledger);
	upgrade_close(&upgrade);
}

/* What brokerd says in a trial, with an owner of that version: its exit status. */
static int says(uint64_t version, int ledger)
{
	char name[] = "brokerd", *argv[] = { name, NULL }, path[PATH_MAX];
	const char *top = getenv("top_builddir");
	struct handover handover = { 0 };
	int status, program;
	pid_t pid = fork();

	if (!pid) {
		snprintf(path, sizeof path, "%s/broker/brokerd", top ? top : ".");
		program = open(path, O_PATH | O_CLOEXEC);
		handover_add(&handover, HANDOVER_PURPOSE, HANDOVER_TRIAL, -1);
		handover_add(&handover, HANDOVER_OWNER_SPEAKS, version, -1);
		handover_add(&handover, HANDOVER_KEPT, keep_key(KEPT_LEDGER, KEPT_ONLY), ledger);
		handover_add(&handover, HANDOVER_KEPT, keep_key(KEPT_LISTENER, KEPT_ONLY), 0);
		handover_add(&handover, HANDOVER_BOARD, 0, 0);
		handover_add(&handover, HANDOVER_CONFIG, 0, memfd_create("config", MFD_CLOEXEC));
		handover_exec(&handover, program, argv);
		_exit(99);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void test_brokerd_says_whether_it_could_go_on(void **state)
{
	struct ledger ledger;

	(void)state;
	assert_int_equal(ledger_create(&ledger, 1), 0);
	assert_int_equal(says(OWNER_VERSION, ledger_fd(&ledger)), UPGRADE_YES);
	assert_int_equal(says(OWNER_VERSION + 1, ledger_fd(&ledger)), 2);
	assert_int_equal(says(OWNER_VERSION, -1), 2);
	ledger_destroy(&ledger);
}

static bool pack_nothing(void *context, struct handover *handover)
{
	(void)context;
	(void)handover;
	return false;
}

static int no_broker_serves(void *context)
{
	++*(int *)context;
	return error_set(-EAGAIN, "no broker serves now");
}

/* No trial after trial until then. */
static void test_an_upgrade_waits_for_a_broker(void **state)
{
	char name[] = "true", *argv[] = { name, NULL };
	int calls = 0;
	struct upgrade upgrade = { .argv = argv, .path = "/bin/true", .before = -1, .next = -1, .pack = pack_nothing,
				   .end_broker = no_broker_serves, .context = &calls };
	struct event_base *base = event_base_new();
	pid_t pid;

	(void)state;
	upgrade_ask(&upgrade, base);
	assert_int_equal(upgrade.trial, 0);
	upgrade_ready(&upgrade);
	pid = upgrade.trial;
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	upgrade_reaped(&upgrade, pid, UPGRADE_YES << 8);
	assert_int_equal(calls, 1);
	assert_int_equal(upgrade.trial, 0);
	upgrade_ready(&upgrade);
	assert_true(upgrade.trial > 0);
	upgrade_stop(&upgrade);
	upgrade_close(&upgrade);
	event_base_free(base);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_passed_on_arrives),
		cmocka_unit_test(test_an_exec_that_fails_changes_nothing),
		cmocka_unit_test(test_what_is_no_handover_is_refused),
		cmocka_unit_test(test_a_program_goes_on_with_what_it_knows_alone),
		cmocka_unit_test(test_brokerd_says_whether_it_could_go_on),
		cmocka_unit_test(test_an_upgrade_waits_for_a_broker),
	};

	if (argc == 2 && !strcmp(argv[1], "second"))
		return second();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

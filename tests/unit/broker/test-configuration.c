/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-configuration.c - brokerd.conf(5): what it says holds, what it leaves out is the default, what is wrong is
 * refused.
 */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/daemon/configuration.h"
#include "common/error.h"

static char path[] = "/tmp/gpubroker-config.XXXXXX";
static struct brokerd_config *config;

static int setup(void **state)
{
	int fd = mkstemp(strcpy(path, "/tmp/gpubroker-config.XXXXXX"));

	(void)state;
	config = NULL;
	return fd < 0 || close(fd);
}

static int teardown(void **state)
{
	(void)state;
	brokerd_config_free(config);
	return unlink(path);
}

static int read_text(const char *text, struct brokerd_config **result)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
	return brokerd_config_read(result, path);
}

static void reads(const char *text)
{
	brokerd_config_free(config);
	config = NULL;
	if (read_text(text, &config))
		fail_msg("%s", error_text());
}

static uint64_t limit_of(uid_t uid, enum resource resource)
{
	struct accounting accounting;

	accounting_init(&accounting);
	accounting_set_quotas(&accounting, &config->broker.quotas);
	return accounting_quota(&accounting, uid)->limit[resource];
}

static void check_defaults(void)
{
	const struct quota *all = &config->broker.quotas.fallback;

	assert_string_equal(config->socket, "/run/gpubroker/socket");
	assert_string_equal(config->broker.instance, "system");
	assert_string_equal(config->broker.device, "auto");
	assert_true(config->group == BROKERD_NO_GROUP);
	assert_int_equal(config->mode, 0666);
	assert_int_equal(config->drain_seconds, 30);
	assert_int_equal(config->log, LOG_NORMAL);
	assert_true(config->broker.several_users);
	assert_int_equal(config->broker.trust, TRUST_OWNER);
	assert_int_equal(config->broker.pool, 64 << 20);
	assert_false(config->broker.creators.restricted);
	assert_int_equal(config->broker.buffers, BROKER_BUFFERS);
	assert_int_equal(config->broker.handles, BROKER_HANDLES);
	assert_true(all->limit[RESOURCE_BYTES] == QUOTA_NONE);
	assert_int_equal(all->limit[RESOURCE_BUFFERS], BROKER_BUFFERS / 2);
	assert_int_equal(all->limit[RESOURCE_GRANTS], BROKER_HANDLES / 2);
	assert_int_equal(all->limit[RESOURCE_SESSIONS], 1024);
	assert_int_equal(all->limit[RESOURCE_TICKETS], 1024);
	assert_in_range(all->limit[RESOURCE_GREETINGS], 1, 4096);
	assert_int_equal(all->limit[RESOURCE_WAITS], 8192);
	assert_true(all->requests == QUOTA_NONE);
	assert_int_equal(config->broker.quotas.count, 0);
}

static void test_defaults(void **state)
{
	(void)state;
	assert_int_equal(brokerd_config_read(&config, NULL), 0);
	check_defaults();
	reads("");
	check_defaults();
	reads("# nothing\nboard { }\nquota \"default\" { }\n");
	check_defaults();
}

static void test_every_key(void **state)
{
	(void)state;
	reads("socket = \"/tmp/a b/socket\"\n"
	      "group = 12\n"
	      "mode = \"0660\"\n"
	      "instance = other\n"
	      "device = \"host:2\"\n"
	      "board { buffers = 100  mappings = 51 }\n"
	      "pool = \"3M\"\n"
	      "poll = 50\n"
	      "trust = nobody\n"
	      "creators { users = { root, \"1001\" }  groups = { 7, 8, 9 } }\n"
	      "log = verbose\n"
	      "drain_timeout = \"5m\"\n"
	      "quota \"default\" { bytes = \"1G\" buffers = 5 sessions = 6 grants = 7 tickets = 8 requests = 9 }\n");
	assert_string_equal(config->socket, "/tmp/a b/socket");
	assert_int_equal(config->group, 12);
	assert_int_equal(config->mode, 0660);
	assert_string_equal(config->broker.instance, "other");
	assert_string_equal(config->broker.device, "host:2");
	assert_int_equal(config->broker.buffers, 100);
	assert_int_equal(config->broker.handles, 51);
	assert_int_equal(config->broker.pool, 3 << 20);
	assert_int_equal(config->broker.poll_us, 50);
	assert_int_equal(config->broker.trust, TRUST_NOBODY);
	assert_int_equal(config->log, LOG_VERBOSE);
	assert_int_equal(config->drain_seconds, 300);
	assert_true(limit_of(3, RESOURCE_BYTES) == 1u << 30);
	for (int i = RESOURCE_BUFFERS; i <= RESOURCE_TICKETS; i++)
		assert_in_range(limit_of(3, (enum resource)i), 5, 8);
	assert_int_equal(limit_of(3, RESOURCE_SESSIONS), 6);
	assert_int_equal(config->broker.quotas.fallback.requests, 9);
}

static void test_creators(void **state)
{
	const struct access_list *creators;
	const gid_t groups[] = { 5, 8 };
	struct identity root = { .uid = 0, .gid = 99 }, listed = { .uid = 70001, .gid = 99 },
			other = { .uid = 70002, .gid = 99 },
			member = { .uid = 70003, .gid = 99, .groups = (gid_t *)groups, .group_count = 2 };

	(void)state;
	reads("creators { users = { 70001, 70009 }  groups = { 7, 8 } }");
	creators = &config->broker.creators;
	assert_int_equal(creators->user_count, 2);
	assert_int_equal(creators->group_count, 2);
	assert_true(access_may_create(creators, &root));
	assert_true(access_may_create(creators, &listed));
	assert_true(access_may_create(creators, &member));
	assert_false(access_may_create(creators, &other));
	reads("creators { users = { 70001 } users += { 70002, 70003 } }");
	assert_int_equal(config->broker.creators.user_count, 3);
	reads("creators { }");
	assert_true(config->broker.creators.restricted);
	assert_false(access_may_create(&config->broker.creators, &listed));
}

static void test_names_of_users_and_groups(void **state)
{
	const struct passwd *user = getpwuid(geteuid());
	const struct group *group = getgrgid(getegid());
	char text[400];

	(void)state;
	if (!user || !group)
		skip();
	snprintf(text, sizeof text, "group = \"%s\"\nquota \"%s\" { buffers = 3 }\ncreators { users = { \"%s\" } }",
		 group->gr_name, user->pw_name, user->pw_name);
	reads(text);
	assert_int_equal(config->group, getegid());
	assert_int_equal(limit_of(geteuid(), RESOURCE_BUFFERS), 3);
	assert_int_equal(config->broker.creators.users[0], geteuid());
}

/* Wherever "default" stands. */
static void test_a_users_quota_leaves_the_rest_to_the_default(void **state)
{
	(void)state;
	reads("quota \"70001\" { bytes = none  buffers = 0 }\n"
	      "quota 70002 { waits = 9 }\n"
	      "quota \"default\" { bytes = 4K  buffers = 7  grants = none }\n"
	      "board { buffers = 30 mappings = 5 }\n");
	assert_true(limit_of(70001, RESOURCE_BYTES) == QUOTA_NONE);
	assert_int_equal(limit_of(70001, RESOURCE_BUFFERS), 0);
	assert_true(limit_of(70001, RESOURCE_GRANTS) == QUOTA_NONE);
	assert_int_equal(limit_of(70002, RESOURCE_BYTES), 4096);
	assert_int_equal(limit_of(70002, RESOURCE_BUFFERS), 7);
	assert_int_equal(limit_of(70002, RESOURCE_WAITS), 9);
	assert_int_equal(limit_of(70003, RESOURCE_WAITS), 8192);
	assert_int_equal(limit_of(70003, RESOURCE_BYTES), 4096);
	assert_int_equal(limit_of(70001, RESOURCE_GREETINGS), limit_of(70003, RESOURCE_GREETINGS));
}

/*
 * A user that may have none of a thing is told so. One that may not ask would not be answered: that is one of the
 * mistakes below.
 */
static void test_0_is_a_limit(void **state)
{
	(void)state;
	reads("quota \"default\" { bytes = 0  buffers = 0  sessions = 0  grants = 0  tickets = 0 }\n"
	      "quota 70001 { requests = 1 }\n");
	for (int i = RESOURCE_BYTES; i <= RESOURCE_TICKETS; i++)
		assert_true(limit_of(70002, (enum resource)i) == 0);
	assert_true(config->broker.quotas.users[0].quota.requests == 1);
	reads("pool = 0");
	assert_int_equal(config->broker.pool, 0);
}

static void test_half_of_the_board_is_the_default(void **state)
{
	(void)state;
	reads("quota \"70001\" { bytes = 1 }\nboard { buffers = 30  mappings = 1 }\n");
	assert_int_equal(limit_of(70001, RESOURCE_BUFFERS), 15);
	assert_int_equal(limit_of(70002, RESOURCE_BUFFERS), 15);
	/* one place is somebody's */
	assert_int_equal(limit_of(70002, RESOURCE_GRANTS), 1);
}

static void test_times(void **state)
{
	static const struct {
		const char *text;
		unsigned    seconds;
	} times[] = { { "0", 0 }, { "7", 7 }, { "45s", 45 }, { "2m", 120 }, { "24h", 86400 }, { "86400", 86400 } };
	static const char *const wrong[] = { "",    "s",   "-1",    "1.5",	    "30 s", "1d",
					     "1ss", "25h", "86401", "999999999999", "5mm" };

	(void)state;
	assert_int_equal(brokerd_config_read(&config, NULL), 0);
	for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
		assert_int_equal(brokerd_config_set(config, "drain_timeout", times[i].text), 0);
		assert_int_equal(config->drain_seconds, times[i].seconds);
	}
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_int_equal(brokerd_config_set(config, "drain_timeout", wrong[i]), -EINVAL);
	assert_int_equal(config->drain_seconds, 86400);
}

/* Each with the line that is at fault, and a part of the error message. */
static const struct {
	unsigned    line;
	const char *text, *message;
} mistakes[] = {
	{ 2, "\nsockets = \"/x\"\n", "'sockets' is no key here" },
	{ 1, "quotas { }", "'quotas' is no key here" },
	{ 3, "board {\n buffers = 3\n places = 3\n}\n", "'places' is no key here" },
	{ 2, "quota \"default\" {\n byte = 1 }", "'byte' is no key here" },
	{ 1, "creators { uids = { 1 } }", "'uids' is no key here" },
	{ 1, "include(\"/etc/passwd\")", "'include' is no key here" },
	{ 3, "log = quiet\n\nlog = quiet\n", "'log' is given twice" },
	{ 2, "board { buffers = 4 }\nboard { buffers = 4 }\n", "'buffers' is given twice" },
	{ 1, "quota 5 { bytes = 1 bytes = 1 }", "'bytes' is given twice" },
	{ 2, "creators { users = { 1, 2 }\n users = { 3 } }", "'users' is given twice" },
	{ 2, "creators { users = { 1 }\n users = { 3 } }", "'users' is given twice" },
	{ 2, "creators { users = { 1, 2 }\n users = { } }", "given twice" },
	{ 2, "creators { users = { 1 }\n users = { 1 } }", "'users' is given twice" },
	{ 2, "creators { users = { 1 }\n users = { 1, 2 } }", "'users' is given twice" },
	{ 2, "creators { users = 1\n users = { 2, 3 } }", "'users' is given twice" },
	{ 2, "creators { groups = { 1 } }\ncreators { groups = { 1 } }", "'groups' is given twice" },
	{ 2, "quota 5 { }\nquota \"5\" { }", "two quotas for \"5\"" },
	{ 2, "quota \"0\" { }\nquota root { }", "two quotas for user 0" },
	{ 1, "quota { bytes = 1 }", "write quota \"NAME\"" },
	{ 2, "\nquota \"no-such-user\" { }", "there is no user 'no-such-user'" },
	{ 1, "quota \"-1\" { }", "there is no user '-1'" },
	{ 1, "quota \"4294967295\" { }", "there is no user '4294967295'" },
	{ 2, "creators {\n users = { root, no-such-user } }", "there is no user 'no-such-user'" },
	{ 3, "creators {\n\n groups = { no-such-group } }", "there is no group 'no-such-group'" },
	{ 1, "group = no-such-group", "there is no group" },
	{ 1, "socket = \"run/socket\"", "no place for the socket" },
	{ 1, "socket = \"/run/\"", "no place for the socket" },
	{ 1, "socket = \"\"", "no place for the socket" },
	{ 1,
	  "socket = "
	  "/01234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456"
	  "7",
	  "longer than 107" },
	{ 1, "mode = 0888", "'0888' is no mode" },
	{ 1, "mode = 7777", "'7777' is no mode" },
	{ 1, "instance = \"a.b\"", "no name of an instance" },
	{ 1, "instance = \"\"", "no name of an instance" },
	{ 1, "device = gpu", "'gpu' is no device" },
	{ 1, "device = \"host:65\"", "is no device" },
	{ 1, "pool = none", "'none' is not a size" },
	{ 1, "poll = soon", "'soon' is no number of microseconds" },
	{ 1, "poll = 1000001", "number from 0 to 1000000" },
	{ 2, "\npool = \"-1\"", "'-1' is not a size" },
	{ 2, "pool = 1M\npool = 2M\n", "'pool' is given twice" },
	{ 1, "trust = everybody", "write owner or nobody" },
	{ 1, "believe = nobody", "believe" },
	{ 3, "\ntrust = owner\ntrust = nobody", "'trust' is given twice: keep one" },
	{ 1, "log = loud", "write quiet, normal or verbose" },
	{ 1, "drain_timeout = soon", "'soon' is no time" },
	{ 2, "board {\n buffers = 0 }", "'0' is no count of buffers: give a number from 1 to 1048576" },
	{ 1, "board { buffers = 1048577 }", "a number from 1 to 1048576" },
	{ 1, "board { mappings = many }", "'many' is no count of mappings" },
	{ 1, "board { mappings = 99999999999999999999 }", "is no count of mappings" },
	{ 2, "quota \"default\" {\n bytes = 64X }", "'64X' is no limit" },
	{ 1, "quota 5 { buffers = -1 }", "'-1' is no limit" },
	{ 1, "quota 5 { grants = 18446744073709551614 }", "is no limit" },
	{ 1, "quota 5 { requests = 0 }", "waiting for ever: write at least 1, or none" },
	{ 2, "quota \"default\" {\n requests = 00 }", "waiting for ever" },
	{ 1, "quota 5 { requests = -1 }", "'-1' is no limit" },
	{ 1, "log verbose", "'log' has no value" },
	{ 2, "\n\"\" = verbose", "'' is no name of anything" },
	{ 1, "log += verbose", "write '=' instead of '+='" },
	{ 1, "board = 3", "'board' is a section" },
	{ 2, "log =\n", "ends in the middle" },
	{ 2, "log = quiet\n}\n", "'}' without a '{'" },
	{ 2, "\nboard {\n buffers = 3\n", "never closed" },
	{ 3, "\n\nsocket = \"/x\n", "never closed" },
	{ 1, "socket = ${HOME}", "variables are not expanded" },
};

static void test_mistakes_are_refused_with_their_line(void **state)
{
	struct brokerd_config *untouched = (struct brokerd_config *)&mistakes, *result;
	char beginning[64];

	(void)state;
	for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
		result = untouched;
		snprintf(beginning, sizeof beginning, "%s:%u: ", path, mistakes[i].line);
		if (read_text(mistakes[i].text, &result) != -EINVAL || result != untouched)
			fail_msg("not refused: %s", mistakes[i].text);
		if (strncmp(error_text(), beginning, strlen(beginning)) || !strstr(error_text(), mistakes[i].message))
			fail_msg("%s\n\tis refused by: %s", mistakes[i].text, error_text());
	}
	/* what went before leaves nothing behind */
	reads("");
	check_defaults();
}

static void test_no_file_is_told_from_a_bad_one(void **state)
{
	(void)state;
	assert_int_equal(brokerd_config_read(&config, "/nowhere/brokerd.conf"), -ENOENT);
	assert_int_equal(brokerd_config_read(&config, "/tmp"), -EINVAL);
	assert_null(config);
}

static void test_a_reload_keeps_what_needs_a_restart(void **state)
{
	struct brokerd_config *next = NULL;
	char text[BROKERD_KEYS_TEXT];

	(void)state;
	reads("instance = first\nboard { mappings = 10 }\nquota 5 { bytes = 1 }\nlog = quiet\ndrain_timeout = 1");
	assert_int_equal(read_text("instance = second\n"
				   "board { mappings = 20 buffers = 9 }\n"
				   "quota 6 { bytes = 2 }\n"
				   "log = verbose\n"
				   "drain_timeout = 2\n"
				   "pool = 7K\n"
				   "creators { users = { 5 } }",
				   &next),
			 0);
	brokerd_config_keep(next, config, text);
	brokerd_config_free(config);
	config = next;
	assert_string_equal(text, "instance, board.buffers, board.mappings");
	assert_string_equal(config->broker.instance, "first");
	assert_int_equal(config->broker.handles, 10);
	assert_int_equal(config->broker.buffers, BROKER_BUFFERS);
	assert_int_equal(config->log, LOG_VERBOSE);
	assert_int_equal(config->drain_seconds, 2);
	assert_int_equal(config->broker.pool, 7 << 10);
	assert_int_equal(limit_of(6, RESOURCE_BYTES), 2);
	assert_true(limit_of(5, RESOURCE_BYTES) == QUOTA_NONE);
	assert_true(config->broker.creators.restricted);
	/* a second one with the same file has nothing more to say */
	assert_int_equal(read_text("instance = first\nboard { mappings = 10 }", &next), 0);
	brokerd_config_keep(next, config, text);
	brokerd_config_free(next);
	assert_string_equal(text, "");
}

static void test_every_restart_key_can_be_named_at_once(void **state)
{
	struct brokerd_config *next = NULL;
	char text[BROKERD_KEYS_TEXT];

	(void)state;
	reads("");
	assert_int_equal(read_text("socket = /x\n"
				   "group = 1\n"
				   "mode = 0600\n"
				   "instance = x\n"
				   "device = host\n"
				   "trust = nobody\n"
				   "board { buffers = 1 mappings = 1 }", &next), 0);
	brokerd_config_keep(next, config, text);
	brokerd_config_free(next);
	assert_string_equal(text, "socket, group, mode, instance, device, trust, board.buffers, board.mappings");
}

#define ON(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_defaults),
		ON(test_every_key),
		ON(test_creators),
		ON(test_names_of_users_and_groups),
		ON(test_a_users_quota_leaves_the_rest_to_the_default),
		ON(test_0_is_a_limit),
		ON(test_half_of_the_board_is_the_default),
		ON(test_times),
		ON(test_mistakes_are_refused_with_their_line),
		ON(test_no_file_is_told_from_a_bad_one),
		ON(test_a_reload_keeps_what_needs_a_restart),
		ON(test_every_restart_key_can_be_named_at_once),
	};

	return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* list.c - gpub_list: names by a pattern, in order, with what gpub_stat() says of each, until its caller has enough. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"

static char names[1024];
static unsigned different;

/* context: how many more are wanted; NULL: all. */
static int note(const gpub_info *info, void *context)
{
	gpub_info stat = { .struct_size = sizeof stat };
	int *more = context;

	strcat(strcat(names, info->name), " ");
	/* a call of the library from within the list */
	if (gpub_stat(client, info->name, &stat) || memcmp(&stat, info, sizeof stat))
		different++;
	return more && !--*more ? 77 : 0;
}

/* order.name: "PATTERN: NAME NAME ", the names that are expected */
static int do_list(const struct order *order)
{
	const char *expected = strchr(order->name, ':') + 2;
	char pattern[sizeof order->name];
	int error;

	names[0] = 0;
	different = 0;
	snprintf(pattern, sizeof pattern, "%.*s", (int)(expected - 2 - order->name), order->name);
	error = gpub_list(client, pattern, note, NULL);
	return error ? error : different ? -EILSEQ : strcmp(names, expected) ? -ENOMSG : 0;
}

static int do_list_some(const struct order *order)
{
	int more = (int)order->value;

	names[0] = 0;
	return gpub_list(client, NULL, note, &more) == 77 && !strcmp(names, "a a/b ") ? 0 : -ENOMSG;
}

static int disconnect(const gpub_info *info, void *context)
{
	unsigned *calls = context;

	(void)info;
	if (!(*calls)++)
		gpub_disconnect(client);
	return 0;
}

/* The last step of its client. */
static int do_list_disconnects(const struct order *order)
{
	unsigned calls = 0;

	(void)order;
	if (gpub_list(client, "*", disconnect, &calls))
		return -EIO;
	client = NULL;
	return calls == 4 ? 0 : -ENOMSG;
}

static int do_list_wrong(const struct order *order)
{
	(void)order;
	return gpub_list(client, "*", NULL, NULL);
}

int main(void)
{
	struct broker_process broker;
	struct puppet a;

	harness_begin("list", 60);
	broker_start(&broker, "host");
	puppet_start(&a, &broker);
	POINT(!ask(&a, do_list, .name = "*: "), "no buffer");
	ask(&a, do_create, .name = "b/c");
	ask(&a, do_create, .name = "a/b");
	ask(&a, do_create, .name = "a");
	ask(&a, do_create, .name = "ab");
	POINT(!ask(&a, do_list, .name = "*: a a/b ab b/c "),
	      "all, in the order of their names, as gpub_stat() says each");
	POINT(!ask(&a, do_list, .name = "a*: a a/b ab "), "names that begin so: * matches / too");
	POINT(!ask(&a, do_list, .name = "*b: a/b ab "), "and that end so");
	POINT(!ask(&a, do_list, .name = "[bx]/?: b/c "), "and that have one of these characters");
	POINT(!ask(&a, do_list, .name = "a: a "), "a name");
	POINT(!ask(&a, do_list, .name = "no-such: "), "a name that nothing has");
	POINT(!ask(&a, do_list_some, .value = 2), "a list that its caller ends");
	POINT(ask(&a, do_list_wrong) == -EINVAL, "a list for nobody is refused");
	POINT(!ask(&a, do_list_disconnects), "the client may be disconnected within the list");
	puppet_kill(&a);
	broker_end(&broker);
	return harness_end();
}

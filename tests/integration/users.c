/* SPDX-License-Identifier: Apache-2.0 */
/*
 * users.c - two users of one brokerd, on either device: what one may have of the other's, and that the word of another
 * user frees nothing. Root alone can be several users.
 *
 * The malicious client sends CLOSED for what it goes on using, as no library would. Until it is dead the memory stays,
 * is charged to its owner, and nobody gets it next.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "client/client.h"
#include "client/send.h"
#include "harness.h"

#define OWNER 4001
#define OTHER 4002
#define SIZE  (4u << 20)

static struct broker_process broker;
static struct puppet owner, other;
static char directory[40];

/* ---- steps ---- */

static int do_become(const struct order *order)
{
	if (setgroups(0, NULL) || setresgid((gid_t)order->value, (gid_t)order->value, (gid_t)order->value) ||
	    setresuid((uid_t)order->value, (uid_t)order->value, (uid_t)order->value))
		return -errno;
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of the user takes it away */
	return 0;
}

static int do_share(const struct order *order)
{
	return gpub_chmod(client, order->name, (uint32_t)order->value);
}

static int do_lie(const struct order *order)
{
	struct record *record;

	(void)order;
	for (record = client->records.all; record; record = record->next)
		if (RECORD_STATE(atomic_load(&record->state)) == RECORD_OPEN)
			call_closed(client, RECORD_MAPPING(atomic_load(&record->state)));
	return 0;
}

/* 0: every byte of the lease is zero. */
static int do_look(const struct order *order)
{
	static uint64_t copy[SIZE / 8];
	gpub_lease *seen = &lease[order->slot];
	void *stream = NULL;
	int error = gpub_stream_create(client, GPUB_CURRENT, &stream);

	memset(copy, 1, sizeof copy);
	if (!error)
		error = gpub_copy_on(client, copy, seen->ptr, SIZE, stream);
	if (!error)
		error = gpub_stream_sync(stream);
	for (size_t i = 0; i < SIZE / 8 && !error; i++)
		error = copy[i] ? 1 : 0;
	gpub_stream_destroy(stream);
	return error;
}

static int do_redeem(const struct order *order)
{
	return gpub_redeem(client, order->name, &lease[order->slot]);
}

static int do_issue(const struct order *order)
{
	gpub_ticket_terms terms = GPUB_TICKET_TERMS_INIT;
	char text[GPUB_TICKET_MAX];
	int fd, error;

	terms.user = (uint32_t)order->value;
	error = gpub_ticket_issue(client, order->name, order->rights, &terms, text);
	if (error)
		return error;
	fd = order_sock; /* to whoever started us, behind the answer's place: as a message of its own */
	return write(fd, text, sizeof text) == sizeof text ? 0 : -EIO;
}

/* order->value: the uid that must own it. */
static int do_acquire_as(const struct order *order)
{
	gpub_expectation expectation = GPUB_EXPECTATION_INIT;

	expectation.owner = (uint32_t)order->value;
	return gpub_acquire_as(client, order->name, &expectation, GPUB_READ, order->timeout, &lease[order->slot]);
}

static int do_acquire_both(const struct order *order)
{
	const char *const names[] = { "mine", order->name };

	return gpub_acquire_many(client, names, 2, GPUB_READ | GPUB_MINE, 0, &lease[4]);
}

static int do_give(const struct order *order)
{
	return gpub_chown(client, order->name, (uint32_t)order->value, GPUB_KEEP);
}

/* ---- the users ---- */

static _Noreturn void brokerd_exec(const char *config)
{
	const char *build = getenv("top_builddir");
	char path[4096];
	int log = open(broker.log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(path, sizeof path, "%s/broker/brokerd", build ? build : ".");
	if (dup2(log, STDERR_FILENO) < 0)
		_exit(126);
	close_range(3, ~0u, 0);
	execl(path, path, "-c", config, NULL);
	_exit(127);
}

static void brokerd_start(void)
{
	const char *device = getenv("TEST_DEVICE");
	char config[96];
	FILE *file;

	snprintf(directory, sizeof directory, "/run/gpub-users-%d", getpid());
	snprintf(config, sizeof config, "%s/brokerd.conf", directory);
	snprintf(broker.instance, sizeof broker.instance, "users-%d", getpid());
	snprintf(broker.address, sizeof broker.address, "unix:%s/socket", directory);
	snprintf(broker.log, sizeof broker.log, "%s/log", directory);
	file = mkdir(directory, 0755) ? NULL : fopen(config, "we");
	if (!file)
		bail_out("no directory %s: %s", directory, strerror(errno));
	fprintf(file, "socket = \"%s\"\ninstance = \"%s\"\ndevice = \"%s\"\n", broker.address + 5, broker.instance,
		device ? device : "host:1");
	fclose(file);
	broker.in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	broker.pid = fork();
	if (!broker.pid)
		brokerd_exec(config);
	if (!SOON(broker_said(&broker, "serves")))
		bail_out("brokerd does not start");
}

static void brokerd_end(void)
{
	char command[96];

	POINT(!broker_wait(&broker, SIGTERM) && broker_said(&broker, "; balanced"),
	      "invariant 10: brokerd ends with balanced accounting");
	snprintf(command, sizeof command, "rm -rf %s", directory);
	if (system(command))
		printf("# %s is left\n", directory);
}

static void user_start(struct puppet *puppet, uint64_t uid)
{
	struct order order = { .run = do_connect };

	puppet_start_unconnected(puppet, &broker);
	if (ask(puppet, do_become, .value = uid))
		bail_out("no user %llu", (unsigned long long)uid);
	snprintf(order.name, sizeof order.name, "%s", broker.address);
	puppet_tell(puppet, order);
	if (receive(puppet))
		bail_out("user %llu cannot connect: %s", (unsigned long long)uid, puppet->last.text);
}

static int64_t charged(uint64_t uid, const char *resource)
{
	json_t *text = status_json(&broker), *user;
	int64_t used = 0;
	size_t i;

	json_array_foreach(json_object_get(text, "users"), i, user)
		if (json_integer_value(json_object_get(user, "uid")) == (json_int_t)uid)
			used = json_integer_value(json_object_get(json_object_get(user, "used"), resource));
	json_decref(text);
	return used;
}

/* ---- the tests ---- */

static void test_rights(void)
{
	ask(&owner, do_create, .name = "own", .size = SIZE);
	POINT(ask(&other, do_acquire, .name = "own", .rights = GPUB_READ) == -EACCES,
	      "another user's buffer is closed");
	POINT(ask(&other, do_share, .name = "own", .value = 0666) == -EACCES &&
		      ask(&other, do_unlink, .name = "own") == -EACCES,
	      "and neither opened nor unlinked by a user that does not own it");
	POINT(!ask(&owner, do_share, .name = "own", .value = 0604) &&
		      !ask(&other, do_acquire, .name = "own", .rights = GPUB_READ) && !ask(&other, do_return) &&
		      ask(&other, do_acquire, .name = "own", .rights = GPUB_WRITE) == -EACCES,
	      "its owner opens it for reading, and for no more");
}

/* The malicious client sends CLOSED and goes on writing; the owner unlinks the buffer and creates more of its size. */
static void test_malicious(void)
{
	ask(&owner, do_create, .name = "u", .size = SIZE);
	ask(&owner, do_share, .name = "u", .value = 0606);
	POINT(!ask(&other, do_acquire, .name = "u", .rights = GPUB_WRITE, .slot = 1) && !ask(&other, do_lie),
	      "another user maps a buffer, says that it closed it, and did not");
	ask(&owner, do_unlink, .name = "u");
	ask(&owner, do_trim);
	status_stable(&broker, &owner);
	POINT(status_buffers(&broker, "u", "draining") == 1 && charged(OWNER, "bytes") >= SIZE,
	      "invariant 2: another user's CLOSED frees nothing, and the owner is charged on");
	POINT(!ask(&other, do_write, .slot = 1, .value = 0xbad) &&
		      !ask(&owner, do_create, .name = "next", .size = SIZE) &&
		      !ask(&owner, do_acquire, .name = "next", .rights = GPUB_WRITE) && !ask(&owner, do_look),
	      "invariant 6: what it goes on writing is in nobody's memory");
	ask(&owner, do_return);
	puppet_kill(&other);
	POINT(SOON(!status_buffers(&broker, "u", NULL)), "invariant 10: with its death the memory comes back");
	POINT(!ask(&owner, do_create, .name = "again", .size = SIZE) &&
		      !ask(&owner, do_acquire, .name = "again", .rights = GPUB_WRITE) && !ask(&owner, do_look),
	      "invariant 6: zeroed");
	ask(&owner, do_return);
}

/* A disconnect is a word as well. */
static void test_leaver(void)
{
	user_start(&other, OTHER);
	ask(&owner, do_create, .name = "v", .size = SIZE);
	ask(&owner, do_share, .name = "v", .value = 0606);
	ask(&other, do_acquire, .name = "v", .rights = GPUB_READ);
	ask(&other, do_return);
	ask(&other, do_disconnect);
	ask(&owner, do_unlink, .name = "v");
	status_stable(&broker, &owner);
	POINT(status_buffers(&broker, "v", "draining") == 1, "invariant 2: nor does its disconnect");
	puppet_kill(&other);
	POINT(SOON(!status_buffers(&broker, "v", NULL)), "invariant 10: its end does");
}

static bool ticket_for(uint64_t uid, char text[GPUB_TICKET_MAX])
{
	tell(&owner, do_issue, .name = "own", .rights = GPUB_READ | GPUB_WRITE, .value = uid);
	if (recv(owner.sock, text, GPUB_TICKET_MAX, 0) != GPUB_TICKET_MAX)
		return false;
	return !receive(&owner);
}

static int redeem(const char *text)
{
	struct order order = { .run = do_redeem, .slot = 2 };

	snprintf(order.name, sizeof order.name, "%s", text);
	puppet_tell(&other, order);
	return receive(&other);
}

static void test_ticket(void)
{
	char text[GPUB_TICKET_MAX];

	user_start(&other, OTHER);
	ask(&owner, do_share, .name = "own", .value = 0600);
	POINT(ticket_for(OWNER, text) && redeem(text) == -EKEYREJECTED, "a ticket for somebody else is refused");
	POINT(ticket_for(OTHER, text) && !redeem(text) && !ask(&other, do_write, .slot = 2, .value = 7),
	      "one for this user opens what the mode bits do not");
	POINT(redeem(text) == -EKEYREJECTED, "once");
	puppet_kill(&other);
}

/* ---- the owner of a name ---- */

#define MINE (GPUB_READ | GPUB_MINE)

static void make(struct puppet *puppet, const char *name)
{
	struct order order = { .run = do_create, .size = 4096 };

	snprintf(order.name, sizeof order.name, "%s", name);
	puppet_tell(puppet, order);
	receive(puppet);
	order.run = do_share;
	order.value = 0666;
	puppet_tell(puppet, order);
	receive(puppet);
}

static bool refused(struct puppet *puppet, const char *uid)
{
	if (puppet->last.result == -EPERM && strstr(puppet->last.text, uid))
		return true;
	printf("# %d: %s\n", puppet->last.result, puppet->last.text);
	return false;
}

/* Not mapped here yet: the broker's answer. */
static void test_name_of_another(void)
{
	user_start(&other, OTHER);
	make(&other, "bait");
	ask(&owner, do_acquire, .name = "bait", .rights = MINE);
	POINT(refused(&owner, "uid 4002"),
	      "a name that another user made is refused to a session that demands its own, with the owner");
	ask(&owner, do_acquire_as, .name = "bait", .value = OWNER);
	POINT(refused(&owner, "uid 4002"), "and to a session that expects another owner");
	status_stable(&broker, &owner);
	POINT(!status_holders(&broker, "bait", owner.pid), "and nothing of it is granted");
	tell(&owner, do_acquire, .name = "awaited", .rights = MINE, .timeout = -1);
	make(&other, "awaited");
	receive(&owner);
	POINT(refused(&owner, "uid 4002"),
	      "a session that waits for the name is refused when another user makes it, not left waiting");
	tell(&owner, do_acquire_as, .name = "awaited-2", .value = OWNER, .timeout = -1);
	make(&other, "awaited-2");
	receive(&owner);
	POINT(refused(&owner, "uid 4002"), "so is a session that expects an owner");
	POINT(!ask(&owner, do_acquire_as, .name = "bait", .value = OTHER) && !ask(&owner, do_return),
	      "a session that expects the right owner gets it");
}

/* Of what this process has mapped the library knows the owner. */
static void test_mapped_name_of_another(void)
{
	POINT(!ask(&owner, do_acquire, .name = "bait", .rights = GPUB_READ) && !ask(&owner, do_return),
	      "a session that demands nothing gets it, by its mode bits");
	ask(&owner, do_acquire, .name = "bait", .rights = MINE);
	POINT(refused(&owner, "uid 4002"), "also of what is mapped, a demand is refused");
	ask(&owner, do_acquire_as, .name = "bait", .value = 7);
	POINT(refused(&owner, "uid 4002"), "and an expectation");
	ask(&owner, do_trim);
	ask(&owner, do_acquire, .name = "bait", .rights = MINE);
	POINT(refused(&owner, "uid 4002"),
	      "none of which held it: it could be closed, and the broker refuses it again");
}

static void test_names_of_its_own(void)
{
	struct puppet root;

	make(&owner, "mine");
	POINT(!ask(&owner, do_acquire, .name = "mine", .rights = MINE) && !ask(&owner, do_return),
	      "a user's own buffer is its own");
	POINT(!ask(&owner, do_acquire, .name = "mine", .rights = MINE) && !ask(&owner, do_return), "also mapped");
	POINT(!ask(&owner, do_acquire_as, .name = "mine", .value = OWNER) && !ask(&owner, do_return),
	      "by its uid as well");
	POINT(ask(&owner, do_acquire_both, .name = "bait") == -EPERM, "of several names, one of another's refuses all");
	user_start(&root, 0);
	make(&root, "system");
	POINT(!ask(&owner, do_acquire, .name = "system", .rights = MINE) && !ask(&owner, do_return),
	      "what root, who may do anything, has made is taken for its own");
	ask(&owner, do_acquire, .name = "mine", .rights = MINE, .slot = 3);
	ask(&owner, do_return, .slot = 3);
	ask(&root, do_give, .name = "mine", .value = OTHER);
	POINT(!ask(&owner, do_renew, .slot = 3) && !ask(&owner, do_return, .slot = 3),
	      "the owner at the time of the mapping counts as long as it is mapped");
	ask(&owner, do_trim);
	ask(&owner, do_renew, .slot = 3);
	POINT(refused(&owner, "uid 4002"), "then the demand of a lease stands for its renewal, too");
	ask(&root, do_unlink, .name = "mine");
	ask(&root, do_unlink, .name = "system");
	puppet_end(&root);
	puppet_end(&other);
}

int main(void)
{
	harness_begin("users", 120);
	if (geteuid()) {
		printf("1..0 # SKIP root alone can be several users\n");
		return 0;
	}
	brokerd_start();
	user_start(&owner, OWNER);
	user_start(&other, OTHER);
	test_rights();
	test_malicious();
	test_leaver();
	test_ticket();
	test_name_of_another();
	test_mapped_name_of_another();
	test_names_of_its_own();
	puppet_end(&owner);
	brokerd_end();
	return harness_end();
}

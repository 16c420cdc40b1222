/* SPDX-License-Identifier: Apache-2.0 */
/* check-broker.c - see checks.h: how the broker is reached, whether it runs and serves, and what dead brokers left. */
#include <errno.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "access.h"
#include "broker/base/process-start.h"
#include "broker/show/ask.h"
#include "checks.h"
#include "client/connect.h"
#include "common/environment.h"
#include "common/error.h"
#include "common/path-refusal.h"
#include "common/size.h"
#include "report.h"

#define ANSWER_MS          5000 /* limit of the wait for a broker's first message, which it sends at once */
#define BROKER_DESCRIPTORS 1024 /* enough for a broker with some hundred sessions */
#define LEFTOVERS_TOLD     8    /* dead brokers that are reported at most */
#define HOLDERS_TOLD       4    /* processes that are named at most */

const char *user_name(uid_t uid)
{
	static char text[40];
	const struct passwd *user = getpwuid(uid);

	if (user)
		snprintf(text, sizeof text, "%.32s", user->pw_name);
	else
		snprintf(text, sizeof text, "uid %u", uid);
	return text;
}

/* ---- other brokers ---- */

typedef void act_on_broker(const struct exam *exam, const struct shown *shown, unsigned *count);

/* Calls act() for each broker of this machine whose status file can be read. */
static void each_broker(const struct exam *exam, act_on_broker *act)
{
	struct instances instances;
	struct shown shown;
	unsigned count = 0;

	if (instances_find(&instances))
		return;
	for (size_t i = 0; i < instances.count; i++) {
		if (shown_read(&shown, instances.names[i]))
			continue;
		act(exam, &shown, &count);
		shown_free(&shown);
	}
	instances_free(&instances);
}

static void say_living(const struct exam *exam, const struct shown *shown, unsigned *count)
{
	(void)exam;
	(void)count;
	if (shown->state == SHOWN_DEAD)
		return;
	report_remedy("if it is: export GPUBROKER=%s", shown->instance);
	warn("there is a broker '%s' of %s, pid %llu, with another address: is that the one that is meant?", shown->instance,
	     user_name(shown->owner), (unsigned long long)shown->header.pid);
}

static void say_dead(const struct exam *exam, const struct shown *shown, unsigned *count)
{
	(void)exam;
	if (shown->state != SHOWN_DEAD || (*count)++ >= LEFTOVERS_TOLD)
		return;
	if (shown->header.keeps_events)
		report_remedy("start it again, and it goes on with its events; others remove it ten minutes after its last change");
	warn("the broker '%s' of %s, pid %llu, is dead, and what it left is still in /dev/shm, with the memory of its host devices",
	     shown->instance, user_name(shown->owner), (unsigned long long)shown->header.pid);
}

/* Reports a broker that is stopped by a signal, and whose status file has the exam's address. */
static void say_stopped(const struct exam *exam, const struct shown *shown, unsigned *count)
{
	const char *address = shown_address(shown);

	(void)count;
	if (shown->state != SHOWN_STOPPED || !shown->trusted || !address || strcmp(address, exam->address))
		return;
	report_remedy("kill -CONT %llu", (unsigned long long)shown->header.pid);
	fail("the broker '%s' (pid %llu of %s) is stopped by a signal: it answers nobody until it goes on", shown->instance,
	     (unsigned long long)shown->header.pid, user_name(shown->owner));
}

void check_leftovers(struct exam *exam)
{
	each_broker(exam, say_dead);
}

/* ---- the address, and the process that listens at it ---- */

void check_address(struct exam *exam)
{
	const char *variable = environment_get("GPUBROKER");

	if (exam->given)
		ok("the broker's address was given: %s", exam->given);
	else if (variable)
		ok("the broker's address stands in GPUBROKER: %s", variable);
	else
		ok("GPUBROKER is not set: the default sockets are tried");
	if (!client_address(exam->given, exam->address))
		return;
	*exam->address = 0;
	fail("%s", error_text());
	each_broker(exam, say_living);
}

/* Whether this process may not use some part of the path; reports that, with a remedy. */
static bool path_is_closed(const char *path)
{
	char text[ERROR_TEXT_MAX], remedy[ACCESS_TEXT_MAX];
	struct path_part part;

	if (path_part_find(path, &part) != PATH_CLOSED)
		return false;
	path_refusal(path, text, sizeof text);
	report_remedy("%s", access_remedy(part.path, &part.st, part.is_last ? 2 : 1, remedy));
	fail("unix:%s may not be used: %s", path, text);
	return true;
}

/* Reports why connect(2) failed. Connects once more with the library's function, whose error message has the reason. */
static void say_refused(const struct exam *exam, const struct sockaddr_un *sun, int error)
{
	int sock = socket_connect(sun);

	if (sock >= 0) {
		close(sock);
		return;
	}
	if (error == ECONNREFUSED)
		report_remedy("a dead broker left that socket, and the next one there removes it: systemctl restart gpubroker, or brokerd");
	fail("%s", error_text());
	each_broker(exam, say_living);
}

/* Whether the broker is stopped, by its state in /proc; reports that. */
static bool is_stopped(const struct exam *exam)
{
	char letter;

	if (!process_start((uint64_t)exam->broker, &letter) || (letter != 'T' && letter != 't'))
		return false;
	report_remedy("kill -CONT %d", exam->broker);
	fail("the broker (pid %d of %s) is stopped by a %s: it answers nobody until it goes on", exam->broker,
	     user_name(exam->user), letter == 'T' ? "signal" : "debugger");
	return true;
}

/* Reports a process that listens and does not answer. */
static void say_silent(const struct exam *exam)
{
	report_remedy("see what it does: broker-status, journalctl -u gpubroker");
	fail("%s is served by pid %d of %s, which does not answer within %d seconds: it hangs, or is no broker", exam->address,
	     exam->broker, user_name(exam->user), ANSWER_MS / 1000);
	/* the listening process may be a service manager, and the broker its child */
	each_broker(exam, say_stopped);
}

/* Connects without waiting, as a stopped broker's queue may be full. Returns the descriptor or negative errno. */
static int try_connect(const struct sockaddr_un *sun)
{
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error;

	if (sock < 0)
		return -errno;
	error = socket_stamp_senders(sock);
	if (!error && connect(sock, (const struct sockaddr *)sun, sizeof *sun))
		error = -errno;
	if (!error)
		return sock;
	close(sock);
	return error;
}

static void learn_process(struct exam *exam, const struct ucred *process)
{
	exam->broker = process->pid;
	exam->user = process->uid;
}

/* Sets exam->broker to the process that called listen(2): the broker, or a service manager that made the socket. */
static void learn_listener(struct exam *exam, int sock)
{
	struct ucred listener;
	socklen_t size = sizeof listener;

	if (!getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &listener, &size))
		learn_process(exam, &listener);
}

/* Receives the broker's first message, and sets exam->broker to its sender, which the kernel names. */
static void learn_sender(struct exam *exam, int sock)
{
	struct wire_message message;
	struct socket_extra extra;

	socket_receive(sock, &message, &extra, false, MSG_DONTWAIT);
	while (extra.unwanted_count)
		close(extra.unwanted[--extra.unwanted_count]);
	if (extra.has_sender)
		learn_process(exam, &extra.sender);
}

/* Finds out which process listens, whether a process answers, and which one. */
static void probe(struct exam *exam, int sock)
{
	struct pollfd answer = { .fd = sock, .events = POLLIN };

	learn_listener(exam, sock);
	if (is_stopped(exam))
		return;
	exam->serves = poll(&answer, 1, ANSWER_MS) > 0;
	/* looks a second time: a stop signal sent just before takes effect only when the broker is next scheduled */
	if (exam->serves)
		learn_sender(exam, sock);
	else if (!is_stopped(exam))
		say_silent(exam);
}

void check_listener(struct exam *exam)
{
	struct sockaddr_un sun;
	int sock;

	if (!*exam->address)
		return;
	if (socket_address(exam->address, &sun)) {
		fail("%s", error_text());
		return;
	}
	if (path_is_closed(sun.sun_path))
		return;
	sock = try_connect(&sun);
	if (sock == -EAGAIN) {
		report_remedy("find who serves it: ss -xlp, and if it is stopped: kill -CONT PID");
		fail("unix:%s takes no more connections: its server has not accepted those that wait, and may be stopped", sun.sun_path);
	} else if (sock < 0) {
		say_refused(exam, &sun, -sock);
	} else {
		probe(exam, sock);
		close(sock);
	}
}

/* Connects as any program does, but does not start a device. */
void check_connection(struct exam *exam)
{
	const struct device *device;

	if (!exam->serves)
		return;
	if (client_connect_bare(&exam->client, exam->given)) {
		exam->client = NULL;
		fail("%s", error_text());
		return;
	}
	device = device_find(exam->client->board.header->device_kind);
	exam->host = device && device->on_host;
}

/* ---- a broker that answers ---- */

void check_server(struct exam *exam)
{
	char process[64] = "a process outside of this container";

	if (exam->broker)
		snprintf(process, sizeof process, "pid %d", exam->broker);
	ok("the broker '%s' answers at %s: %s of %s, whom this user may trust; nobody else can put a socket there",
	   exam->client->board.header->instance, exam->address + strlen("unix:"), process, user_name(exam->user));
}

/* Whether only the broker that answered, or root, can have written the file. Both pids are as that broker sees them. */
static bool is_brokers_own(const struct exam *exam, const struct shown *file)
{
	const struct status_header *answer = &exam->status.header;

	return file->guarded && (!file->owner || file->owner == exam->user) && file->header.pid == answer->pid &&
	       file->header.start_time == answer->start_time;
}

static void say_file(const struct exam *exam, const struct shown *file)
{
	if (is_brokers_own(exam, file))
		ok("the status file is there for broker-status, and up to date: %s", shown_state_name(file->state));
	else
		warn("the status file of that name may be anybody's: its owner is %s; do not rely on broker-status",
		     user_name(file->owner));
}

/* Reports a status file that cannot be read. With host devices, broker and program must have the same /dev/shm. */
static void say_no_file(const struct exam *exam, int error)
{
	if (error == -ENOENT && exam->host) {
		report_remedy("share it (a container: --ipc=host)");
		fail("the broker's /dev/shm is not this process's, and host devices' memory is there, unless it has "
		     "--export vmm");
	} else if (error == -ENOENT) {
		ok("the broker's /dev/shm is not this process's: broker-status asks the broker instead");
	} else if (error == -EACCES) {
		ok("the status file is not for this user: broker-status asks the broker instead, and shows what this "
		   "user may see");
	} else {
		warn("%s; broker-status cannot be used, all else can", error_text());
	}
}

void check_status_file(struct exam *exam)
{
	struct shown file;
	int error = shown_ask(&exam->status, exam->client);

	if (error) {
		warn("the broker does not tell its status: %s", error_text());
		return;
	}
	exam->has_status = true;
	error = shown_read(&file, exam->status.instance);
	if (error) {
		say_no_file(exam, error);
		return;
	}
	say_file(exam, &file);
	shown_free(&file);
}

/* Lists the first processes that hold memory: "pid 412 (heat), pid 413 (heat)". Returns the number of all. */
static unsigned holders_text(const struct shown *shown, char *text, size_t size)
{
	const json_t *session;
	unsigned count = 0;
	size_t i, used = 0;

	*text = 0;
	json_array_foreach(json_object_get(shown->text, "sessions"), i, session) {
		const char *command = json_string_value(json_object_get(session, "command"));

		if (!json_integer_value(json_object_get(session, "grants")))
			continue;
		if (count++ < HOLDERS_TOLD && used < size)
			used += (size_t)snprintf(text + used, size - used, "%spid %lld (%s)", count > 1 ? ", " : "",
						 (long long)json_integer_value(json_object_get(session, "pid")),
						 command ? command : "?");
	}
	return count;
}

void check_stopping(struct exam *exam)
{
	char text[256];
	unsigned count;

	if (!exam->has_status || !exam->status.header.stopping)
		return;
	count = holders_text(&exam->status, text, sizeof text);
	report_remedy("broker-status %s shows what they map; a service is started anew by: systemctl restart gpubroker",
		      exam->status.instance);
	warn("the broker is stopping: it makes no more buffers, and ends when %u process%s returned what is mapped%s%s", count,
	     count == 1 ? " has" : "es have", count ? ": " : "", text);
}

void check_broker_descriptors(struct exam *exam)
{
	char process[16];
	uint64_t files;

	snprintf(process, sizeof process, "%d", exam->broker);
	if (!limit_of(process, "Max open files", &files))
		return;
	if (files >= BROKER_DESCRIPTORS)
		ok("the broker may have %llu descriptors", (unsigned long long)files);
	else
		warn("the broker may have only %llu descriptors, of which a session takes two and a timeline two more",
		     (unsigned long long)files);
}

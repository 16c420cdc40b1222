/* SPDX-License-Identifier: Apache-2.0 */
/* check-broker.c - see checks.h: tries whether the broker serves this process, and finds what runs here if not. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "broker/show/ask.h"
#include "broker/show/owner-lines.h"
#include "broker/show/read.h"
#include "checks.h"
#include "client/client.h"
#include "client/connect.h"
#include "common/error.h"
#include "common/name.h"
#include "device/device.h"
#include "report.h"

#define ANSWER_SECONDS 5   /* largest wait in seconds for a broker's first messages, which a broker sends at once */
#define REMEDY_MAX     120 /* size of a text with a remedy, including the NUL */

/* Connects as any program does, but starts no device, which may take long: check_buffers() does, at the end. */
void check_connection(struct exam *exam)
{
	const struct board_header *header;
	char address[SOCKET_ADDRESS_SIZE];
	const struct device *device;
	gpub_client *client;

	if (client_address(exam->given, address) || client_connect_within(&client, exam->given, ANSWER_SECONDS)) {
		fail(NULL, "%s", error_text());
		return;
	}
	header = client->board.header;
	device = device_find(header->device_kind);
	exam->connected = true;
	exam->host = device && device->on_host;
	ok("the broker '%s' answers at %s, and serves %u %s device%s", header->instance, address + strlen("unix:"),
	   header->devices, exam->host ? "host" : "CUDA", header->devices == 1 ? "" : "s");
	gpub_disconnect(client);
}

/* ---- the service ---- */

struct unit {
	char load[32], active[32], sub[32]; /* LoadState, ActiveState and SubState, systemctl(1) */
};

enum { SERVICE, SOCKET, UNITS };

/* Stores the value of a line KEY=VALUE if it has that key. */
static void take_value(const char *line, const char *key, char value[32])
{
	size_t length = strlen(key);

	if (!strncmp(line, key, length) && line[length] == '=')
		snprintf(value, 32, "%.*s", (int)strcspn(line + length + 1, "\n"), line + length + 1);
}

/* Asks systemd for the units. What it does not say stays empty. */
static void units_read(struct unit units[UNITS])
{
	FILE *stream = popen("systemctl show -p LoadState -p ActiveState -p SubState gpubroker.service "
			     "gpubroker.socket 2>&-", "re");
	char line[128];
	unsigned i = 0;

	while (stream && i < UNITS && fgets(line, sizeof line, stream)) {
		if (*line == '\n') /* between two units */
			i++;
		else {
			take_value(line, "LoadState", units[i].load);
			take_value(line, "ActiveState", units[i].active);
			take_value(line, "SubState", units[i].sub);
		}
	}
	if (stream)
		pclose(stream);
}

void check_service(struct exam *exam)
{
	struct unit units[UNITS] = { 0 };
	const struct unit *service = &units[SERVICE], *socket = &units[SOCKET];

	(void)exam;
	units_read(units);
	if (strcmp(service->load, "loaded"))
		return; /* no systemd, or no package */
	if (!strcmp(service->active, "failed"))
		warn("journalctl -u gpubroker says why; systemctl restart gpubroker.socket gpubroker",
		     "the service gpubroker has failed");
	else if (!strcmp(service->sub, "auto-restart"))
		warn("journalctl -u gpubroker says why; brokerd --check-config looks at its configuration",
		     "the service gpubroker does not come up: systemd tries again every few seconds");
	else
		ok("the service gpubroker is %s (%s)", service->active, service->sub);
	if (!strcmp(socket->load, "loaded") && strcmp(socket->active, "active"))
		warn("systemctl restart gpubroker.socket gpubroker",
		     "nobody listens for the service gpubroker: gpubroker.socket is %s", socket->active);
}

/* ---- brokers ---- */

static void say_broker(const struct shown *shown)
{
	bool is_stopped = shown->state == SHOWN_STOPPED;
	char remedy[REMEDY_MAX];

	if (shown->state == SHOWN_DEAD)
		return;
	if (is_stopped)
		snprintf(remedy, sizeof remedy, "kill -CONT %llu", (unsigned long long)shown_process(shown));
	else
		snprintf(remedy, sizeof remedy, "if it is the one that is meant: export GPUBROKER=%s", shown->instance);
	warn(remedy, "there is a broker '%s' of uid %u, pid %llu, at %s%s", shown->instance, shown->owner,
	     (unsigned long long)shown->header.pid, shown_address(shown) ? shown_address(shown) : "no address",
	     is_stopped ? ", which is stopped by a signal: it answers nobody until it goes on" : "");
}

void check_brokers(struct exam *exam)
{
	struct instances instances;
	struct shown shown;

	(void)exam;
	if (instances_find(&instances))
		return;
	for (size_t i = 0; i < instances.count; i++)
		if (!shown_read(&shown, instances.names[i])) {
			say_broker(&shown);
			shown_free(&shown);
		}
	instances_free(&instances);
}

/* ---- the owner of the device memory ---- */

static void say_owner(const struct shown *shown)
{
	struct owner_line lines[OWNER_LINES_MAX];
	size_t count = owner_lines(shown, lines);

	for (size_t i = 0; i < count; i++)
		if (lines[i].tone == TONE_PLAIN)
			ok("%s", lines[i].text);
		else if (lines[i].tone == TONE_ALARM)
			warn("the broker's log says why, if this lasts", "%s", lines[i].text);
		else
			warn("broker-ctl events says more, and the system's log who killed it", "%s", lines[i].text);
}

/* ---- its program ---- */

#define COMM_MAX 32

static bool is_brokerd(unsigned long long pid)
{
	char path[40], name[COMM_MAX] = "";
	FILE *file;

	snprintf(path, sizeof path, "/proc/%llu/comm", pid);
	file = fopen(path, "re");
	if (file && !fgets(name, sizeof name, file))
		*name = 0;
	if (file)
		fclose(file);
	return !strcmp(name, "brokerd\n");
}

/* Whether the file of the process's program was replaced or removed; false if this process may not ask. */
static bool is_replaced(unsigned long long pid)
{
	static const char deleted[] = " (deleted)";
	char path[40], file[PATH_MAX];
	ssize_t length;

	snprintf(path, sizeof path, "/proc/%llu/exe", pid);
	length = readlink(path, file, sizeof file);
	return length > (ssize_t)strlen(deleted) &&
	       !memcmp(file + length - strlen(deleted), deleted, strlen(deleted));
}

/* Tells of a broker that does not run the program that is installed. */
static void say_program(const struct shown *shown)
{
	const char *version = shown_version(shown);
	unsigned long long pid = shown->header.pid;
	char remedy[REMEDY_MAX];

	if (!version)
		return;
	if (!strcmp(version, PACKAGE_VERSION) && !is_replaced(pid)) {
		ok("the broker runs gpubroker %s", version);
		return;
	}
	if (is_brokerd(pid))
		snprintf(remedy, sizeof remedy,
			 "kill -USR2 %llu: it goes on as the program that is installed, and its clients lose nothing",
			 pid);
	else
		snprintf(remedy, sizeof remedy, "nothing: it ends with its job");
	if (strcmp(version, PACKAGE_VERSION))
		warn(remedy, "the broker runs gpubroker %s, and this is " PACKAGE_VERSION, version);
	else
		warn(remedy, "the broker runs a program whose file was replaced since its start");
}

static int status_ask(struct shown *shown, const char *address)
{
	char text[SOCKET_ADDRESS_SIZE];
	gpub_client *client;
	int error = client_address(address, text);

	if (!error)
		error = client_connect_within(&client, address, ANSWER_SECONDS);
	if (error)
		return error;
	error = shown_ask(shown, client);
	gpub_disconnect(client);
	return error;
}

void check_owner(struct exam *exam)
{
	const struct status_owner *owner;
	struct shown shown;

	if (status_ask(&shown, exam->given))
		return; /* an older broker, or check_buffers() says why */
	owner = shown_owner(&shown);
	exam->ownerless = owner && owner->state != STATUS_OWNER_RUNS;
	say_owner(&shown);
	say_program(&shown);
	shown_free(&shown);
}

/* ---- a buffer on each device ---- */

static int buffer_acquire(gpub_client *client, const char *name)
{
	gpub_lease lease;
	int error = gpub_acquire(client, name, GPUB_READ | GPUB_WRITE, 0, &lease);

	return error ? error : gpub_return(&lease);
}

/* Creates and acquires a buffer on the current device, as a program does. Returns 0 or negative errno. */
static int buffer_try(gpub_client *client)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	char name[NAME_SIZE];
	int error;

	snprintf(name, sizeof name, "doctor-%d", getpid());
	spec.size = 1;
	spec.flags = GPUB_EPHEMERAL;
	error = gpub_create(client, name, &spec);
	if (error)
		return error;
	error = buffer_acquire(client, name);
	SAVE_ERROR();
	gpub_unlink(client, name);
	return error;
}

static void device_try(gpub_client *client, uint32_t index)
{
	const char *name = client->board.header->device[index].name;
	int ordinal = client->ordinal_of[index], error;

	if (ordinal < 0) {
		warn(client->device->on_host ? "look at GPUB_HOST_VISIBLE" :
					       "look at CUDA_VISIBLE_DEVICES (a container: --gpus all)",
		     "the broker's device %u (%s) is not seen here: buffers on it cannot be mapped on it", index, name);
		return;
	}
	error = gpub_set_device(client, ordinal);
	if (!error)
		error = buffer_try(client);
	if (!error)
		ok("the broker's device %u (%s) is device %d here: a buffer was created and mapped", index, name,
		   ordinal);
	else /* a full quota, or a full device, is no fault of this machine's set-up */
		report(error == -EDQUOT || error == -ENOMEM ? WARN : FAIL, NULL,
		       "a buffer on the broker's device %u (%s, here %d): %s", index, name, ordinal, error_text());
}

void check_buffers(struct exam *exam)
{
	gpub_client *client;

	if (exam->ownerless) /* the create would wait */
		return;
	if (gpub_connect(&client, exam->given)) {
		fail(NULL, "%s", error_text());
		return;
	}
	for (uint32_t index = 0; index < client->board.header->devices; index++)
		device_try(client, index);
	gpub_disconnect(client);
}

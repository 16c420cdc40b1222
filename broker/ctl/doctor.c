/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.c - see doctor.h */
#include "doctor.h"

#include <errno.h>
#include <pwd.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

#include "broker/base/values.h"
#include "broker/show/read.h"
#include "client/client.h"
#include "client/connect.h"
#include "common/environment.h"
#include "common/mps.h"
#include "common/size.h"
#include "device/select.h"

#define CLIENT_DESCRIPTORS 64            /* enough for a process of the library */
#define BROKER_DESCRIPTORS 1024          /* for a broker with some hundred sessions */
#define KEY_MEMORY         65536         /* bytes that may be locked: keys are kept out of swap */
#define SHARED_MEMORY      (64ull << 20) /* for the status file and the board */
#define SHARED_MEMORY_HOST (1ull << 30)  /* and for the memory of a host device */

/* ---- the report ---- */

enum verdict { OK, WARN, FAIL };

static bool failed;

#define ok(...)   report(OK, __VA_ARGS__)
#define warn(...) report(WARN, __VA_ARGS__)
#define fail(...) report(FAIL, __VA_ARGS__)

static void report(enum verdict verdict, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void report(enum verdict verdict, const char *format, ...)
{
	static const char *const names[] = { "ok", "warn", "FAIL" };
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	/* paths and names come from others */
	for (char *c = text; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	printf("%s: %s\n", names[verdict], text);
	failed |= verdict == FAIL;
}

/* The user's name, valid until the next call. */
static const char *user_name(uid_t uid)
{
	static char text[40];
	const struct passwd *user = getpwuid(uid);

	if (user)
		snprintf(text, sizeof text, "%.32s", user->pw_name);
	else
		snprintf(text, sizeof text, "uid %u", uid);
	return text;
}

/* ---- the socket ---- */

static void check_software(void)
{
	ok("this is gpubroker " PACKAGE_VERSION ", protocol version %d, with libsodium %s", WIRE_VERSION,
	   sodium_version_string());
}

static void check_address(const char *address)
{
	const char *variable = environment_get("GPUBROKER");

	if (address)
		ok("the broker's address was given: %s", address);
	else if (variable)
		ok("the broker's address stands in GPUBROKER: %s", variable);
	else
		ok("GPUBROKER is not set: the default sockets are tried");
}

static void list_brokers(void)
{
	struct instances instances;
	struct shown shown;

	if (instances_find(&instances))
		return;
	for (size_t i = 0; i < instances.count; i++) {
		if (shown_read(&shown, instances.names[i]))
			continue;
		if (shown.state != SHOWN_DEAD)
			warn("there is a broker '%s' of %s, pid %llu, with another address: is that the one that is meant?",
			     shown.instance, user_name(shown.owner), (unsigned long long)shown.header.pid);
		shown_free(&shown);
	}
	instances_free(&instances);
}

/* Connects as any program does, but without its devices. NULL: the reason is printed. */
static gpub_client *check_connection(const char *address)
{
	gpub_client *client;
	int error = client_connect_bare(&client, address);

	if (!error)
		return client;
	fail("%s", error_text());
	if (error == -ENOENT || error == -ECONNREFUSED)
		list_brokers();
	return NULL;
}

/* The kernel says who serves the socket. 0: not known. */
static pid_t check_server(const gpub_client *client)
{
	struct sockaddr_un sun = { 0 };
	struct ucred server = { 0 };
	socklen_t size = sizeof server, length = sizeof sun - 1;

	if (getsockopt(client->sock, SOL_SOCKET, SO_PEERCRED, &server, &size) ||
	    getpeername(client->sock, (struct sockaddr *)&sun, &length))
		return 0;
	ok("the broker '%s' answers at %s: pid %d of %s, whom this user may trust; nobody else can put a socket there",
	   client->board.header->instance, sun.sun_path, server.pid, user_name(server.uid));
	return server.pid;
}

/* The broker refuses processes of another one. Of another user's broker the namespace cannot be read. */
static void check_pid_namespace(pid_t broker)
{
	struct stat own, its;
	char path[40];

	snprintf(path, sizeof path, "/proc/%d/ns/pid", broker);
	if (stat("/proc/self/ns/pid", &own) || stat(path, &its))
		ok("the broker accepted this process, so it is in its pid namespace");
	else if (own.st_ino == its.st_ino)
		ok("this process is in the broker's pid namespace");
	else
		fail("this process is in another pid namespace than the broker, where CUDA IPC does not work: start both in one "
		     "(a container: --pid=host)");
}

/* ---- connections: a stream that waits blocks those behind it ---- */

#define CONNECTIONS_USUAL 8  /* CUDA's, where the variable is not set */
#define CONNECTIONS_MAX   32
#define VALUE_MAX         24
#define VARIABLE          "CUDA_DEVICE_MAX_CONNECTIONS"

/* Of programs that are started here: broker-run sets it for its workers. */
static void check_connections(void)
{
	const char *value = getenv(VARIABLE);
	uint64_t count;

	if (!value)
		ok("CUDA_DEVICE_MAX_CONNECTIONS is not set: the streams of a process share %d connections to a device, and one that "
		   "waits for a timeline may hold up others; more are set before a program starts: gpub_signal_on(3)",
		   CONNECTIONS_USUAL);
	else if (number_parse(value, "count of connections", 1, CONNECTIONS_MAX, &count))
		warn("CUDA_DEVICE_MAX_CONNECTIONS is '%.40s', which is no number from 1 to %d: set one, or unset it", value,
		     CONNECTIONS_MAX);
	else if (count < CONNECTIONS_USUAL)
		warn("CUDA_DEVICE_MAX_CONNECTIONS is %s: as many streams of a process that wait for timelines hold up all its others, "
		     "which can be a deadlock; set it to %d or more, or read gpub_signal_on(3)",
		     value, 2 * CONNECTIONS_USUAL);
	else
		ok("CUDA_DEVICE_MAX_CONNECTIONS is %s: as many streams of a process that wait for timelines hold up all its others: "
		   "gpub_signal_on(3)",
		   value);
}

/* The variable as that process was started. 1, and the value, cut; 0: it was not set; -1: it cannot be read. */
static int started_with(pid_t pid, char value[VALUE_MAX])
{
	char path[40], *line = NULL;
	size_t size = 0;
	int found = 0;
	FILE *file;

	snprintf(path, sizeof path, "/proc/%d/environ", pid);
	file = fopen(path, "re");
	if (!file)
		return -1;
	while (!found && getdelim(&line, &size, 0, file) > 0)
		if (!strncmp(line, VARIABLE "=", sizeof VARIABLE)) {
			snprintf(value, VALUE_MAX, "%s", line + sizeof VARIABLE);
			found = 1;
		}
	free(line);
	fclose(file);
	return found;
}

/* A program has the variable from where it was started, not from here. */
static void check_sessions(const struct shown *shown)
{
	unsigned looked = 0, unset = 0;
	const json_t *session;
	size_t i;

	json_array_foreach(json_object_get(shown->text, "sessions"), i, session) {
		pid_t pid = (pid_t)json_integer_value(json_object_get(session, "pid"));
		char value[VALUE_MAX];
		int found = pid == getpid() ? -1 : started_with(pid, value);
		uint64_t count;

		looked += found >= 0;
		unset += !found;
		if (found > 0 && (number_parse(value, "count", 1, CONNECTIONS_MAX, &count) || count < CONNECTIONS_USUAL))
			warn("the session of pid %d was started with " VARIABLE "='%s': with so few, its streams that wait for "
			     "timelines can hold up all its others: gpub_signal_on(3)",
			     pid, value);
	}
	if (unset)
		ok("sessions whose process was started without " VARIABLE ", and has %d connections to a device: %u of %u",
		   CONNECTIONS_USUAL, unset, looked);
}

/* ---- shared memory ---- */

/* A broker on host devices shares memory through /dev/shm: it must be the same one. */
static void check_status_file(const gpub_client *client, pid_t broker)
{
	bool host = client->board.header->device_kind == DEVICE_HOST;
	struct shown shown;
	int error = shown_read(&shown, client->board.header->instance);

	if (error == -ENOENT && host) {
		fail("the broker's /dev/shm is not this process's, and host devices' memory is there: share it (a container: "
		     "--ipc=host)");
	} else if (error) {
		warn("%s; broker-status cannot be used, all else can", error_text());
	} else {
		if (shown.trusted && shown.header.pid == (uint64_t)broker) {
			ok("the status file is there for broker-status, and up to date: %s", shown_state_name(shown.state));
			check_sessions(&shown);
		} else {
			warn("the status file of that name may be anybody's: its owner is %s; do not rely on broker-status",
			     user_name(shown.owner));
		}
		shown_free(&shown);
	}
}

static void check_shared_memory(bool host)
{
	uint64_t need = host ? SHARED_MEMORY_HOST : SHARED_MEMORY, left;
	char text[SIZE_TEXT_MAX];
	struct statvfs fs;

	if (statvfs("/dev/shm", &fs)) {
		fail("/dev/shm cannot be used: %s; mount a tmpfs there", strerror(errno));
		return;
	}
	left = (uint64_t)fs.f_bavail * fs.f_frsize;
	size_format(left, text);
	if (left >= need)
		ok("/dev/shm has %s left", text);
	else
		warn("/dev/shm has only %s left%s: make it larger (a container: --shm-size)", text,
		     host ? ", and host devices' memory is there" : "");
}

/* ---- limits ---- */

/* A process's soft limit as /proc tells it, "unlimited" as UINT64_MAX. False: it cannot be read. */
static bool limit_of(const char *process, const char *name, uint64_t *limit)
{
	char path[40], line[200], soft[24];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof path, "/proc/%s/limits", process);
	file = fopen(path, "re");
	while (file && !found && fgets(line, sizeof line, file))
		found = !strncmp(line, name, strlen(name)) && sscanf(line + strlen(name), "%23s", soft) == 1;
	if (file)
		fclose(file);
	if (found)
		*limit = strcmp(soft, "unlimited") ? strtoull(soft, NULL, 10) : UINT64_MAX;
	return found;
}

static void check_own_limits(void)
{
	char locked[SIZE_TEXT_MAX];
	uint64_t files, memory;

	if (!limit_of("self", "Max open files", &files) || !limit_of("self", "Max locked memory", &memory)) {
		warn("this process's limits cannot be read: is /proc mounted?");
		return;
	}
	if (files >= CLIENT_DESCRIPTORS)
		ok("this process may have %llu descriptors", (unsigned long long)files);
	else
		warn("this process may have only %llu descriptors: raise the limit (ulimit -n)", (unsigned long long)files);
	if (memory >= KEY_MEMORY)
		ok("this process may lock memory: keys stay out of swap");
	else
		warn("this process may lock only %s of memory, so keys may be swapped out: raise the limit (ulimit -l)",
		     size_format(memory, locked));
}

/* A session takes two descriptors, a timeline two more. */
static void check_broker_limits(pid_t broker)
{
	char process[16];
	uint64_t files;

	snprintf(process, sizeof process, "%d", broker);
	if (!limit_of(process, "Max open files", &files))
		return;
	if (files >= BROKER_DESCRIPTORS)
		ok("the broker may have %llu descriptors", (unsigned long long)files);
	else
		warn("the broker may have only %llu descriptors, of which a session takes two: start it with a higher limit "
		     "(ulimit -Hn)",
		     (unsigned long long)files);
}

/* ---- devices ---- */

/* The kernel module's version can be read also where the driver's library is missing. */
static void check_driver(void)
{
	char version[64] = "";
	FILE *file = fopen("/sys/module/nvidia/version", "re");

	if (file && fgets(version, sizeof version, file))
		version[strcspn(version, "\n")] = 0;
	if (file)
		fclose(file);
	if (*version)
		ok("the NVIDIA driver is loaded: %s", version);
	else
		warn("no NVIDIA driver is loaded here");
}

/* Where it is missing, too old or damaged, starting the device has reported that. */
static void check_library(void)
{
	int version;

	if (device_cuda && !device_cuda->driver(&version))
		ok("libcuda.so.1 supports CUDA %d.%d; gpubroker needs %d.%d, which driver " CUDA_NEEDED_DRIVER " and newer ones have",
		   version / 1000, version % 1000 / 10, CUDA_NEEDED / 1000, CUDA_NEEDED % 1000 / 10);
}

static void check_visible(const char *variable)
{
	const char *value = getenv(variable);

	if (value)
		ok("%s is '%s': this process sees those devices only", variable, value);
	else
		ok("%s is not set: this process sees every device", variable);
}

static void check_mps(void)
{
	char path[MPS_PATH_MAX];

	if (mps_is_here(path))
		warn("programs here run under MPS (%s): one that is killed in a kernel takes the others with it, not the broker",
		     path);
	else
		ok("no MPS daemon is at %s: programs here run without MPS", path);
}

static void compare_device(const struct device *device, const struct board_header *board, uint32_t index, int count)
{
	const struct board_device *its = &board->device[index];
	struct device_info info;

	for (int ordinal = 0; ordinal < count; ordinal++) {
		if (device->info(ordinal, &info) || memcmp(info.uuid, its->uuid, sizeof info.uuid))
			continue;
		ok("the broker's device %u (%s) is device %d here", index, its->name, ordinal);
		return;
	}
	warn("the broker's device %u (%s) is not seen here: buffers on it cannot be mapped on it", index, its->name);
}

static void compare_devices(const struct device *device, const struct board_header *board)
{
	int count = device->count();

	if (count < 0)
		count = 0;
	for (uint32_t index = 0; index < board->devices; index++)
		compare_device(device, board, index, count);
	for (int ordinal = 0; ordinal < count; ordinal++) {
		struct device_info info;
		struct board its = { .header = board };

		if (!device->info(ordinal, &info) && board_find_device(&its, info.uuid) < 0)
			warn("device %d here (%s) is not the broker's: gpub_acquire(3) is refused while it is current", ordinal,
			     info.name);
	}
}

/* As a client does it when it connects; makes no context. */
static void check_devices(const struct board_header *board)
{
	const struct device *device = board->device_kind == DEVICE_HOST ? &device_host : device_cuda;
	struct device_setup setup = { .owner = false, .host_count = board->host_total };

	if (!device)
		fail("the broker serves CUDA devices and this gpubroker was built without CUDA: build it with --with-cuda");
	else if (device->start(&setup))
		fail("%s", error_text());
	else
		compare_devices(device, board);
}

static void check_devices_alone(void)
{
	const struct device *device;

	if (device_select("auto", false, &device))
		fail("%s", error_text());
	else if (device == device_cuda)
		ok("a broker that is started here serves CUDA devices: %d", device->count());
	else
		ok("a broker that is started here serves the host device: %s",
		   device_cuda ? error_text() : "this gpubroker was built without CUDA");
}

static void check_kind(bool host)
{
	check_connections();
	if (host) {
		check_visible("GPUB_HOST_VISIBLE");
		return;
	}
	check_driver();
	check_library();
	check_visible("CUDA_VISIBLE_DEVICES");
	check_mps();
}

/* ---- all of it ---- */

static void check_broker(gpub_client *client)
{
	const struct board_header *board = client->board.header;
	pid_t broker = check_server(client);

	check_pid_namespace(broker);
	check_status_file(client, broker);
	check_broker_limits(broker);
	ok("the broker serves %u %s device%s", board->devices, board->device_kind == DEVICE_HOST ? "host" : "CUDA",
	   board->devices == 1 ? "" : "s");
	check_devices(board);
}

int ctl_doctor(const char *address)
{
	gpub_client *client;
	bool host = false;

	check_software();
	check_address(address);
	client = check_connection(address);
	if (client) {
		host = client->board.header->device_kind == DEVICE_HOST;
		check_broker(client);
		gpub_disconnect(client);
	} else {
		check_devices_alone();
	}
	check_kind(host);
	check_shared_memory(host);
	check_own_limits();
	return failed;
}

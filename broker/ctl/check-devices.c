/* SPDX-License-Identifier: Apache-2.0 */
/* check-devices.c - see checks.h: devices here and at the broker, the driver, and MPS. */
#include <errno.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "access.h"
#include "broker/base/values.h"
#include "checks.h"
#include "common/error.h"
#include "common/mps.h"
#include "device/select.h"
#include "report.h"

/* ---- the broker's devices, and this process's ---- */

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

/* Starts the backend as a client does when it connects, but makes no context, and compares the devices. */
void check_devices(struct exam *exam)
{
	const struct board_header *board = exam->client->board.header;
	const struct device *device = device_find(board->device_kind);
	struct device_setup setup = { .owner = false, .host_count = board->host_total };

	ok("the broker serves %u %s device%s", board->devices, exam->host ? "host" : "CUDA", board->devices == 1 ? "" : "s");
	if (!device) {
		report_remedy("build it with --with-cuda");
		fail("the broker serves a kind of device that this gpubroker was built without");
	} else if (device->start(&setup)) {
		report_remedy("see the driver's lines below");
		fail("%s", error_text());
	} else {
		exam->device = device;
		compare_devices(device, board);
	}
}

void check_devices_alone(struct exam *exam)
{
	const struct device *device;

	if (device_select("auto", false, &device)) {
		fail("%s", error_text());
		return;
	}
	exam->device = device;
	if (device->driver)
		ok("a broker that is started here serves CUDA devices: %d", device->count());
	else
		ok("a broker that is started here serves the host device: %s",
		   device_cuda ? error_text() : "this gpubroker was built without CUDA");
}

/* Formats a UUID as nvidia-smi -i takes it: "GPU-fa000000-...". Returns text. */
static const char *uuid_text(const uint8_t uuid[16], char text[44])
{
	char *end = text + sprintf(text, "GPU-");

	for (int i = 0; i < 16; i++)
		end += sprintf(end, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
	return text;
}

void check_compute_mode(struct exam *exam)
{
	int count = exam->device->count(), bound = 0;
	struct device_info info;
	char uuid[44];

	for (int ordinal = 0; ordinal < count; ordinal++) {
		if (exam->device->info(ordinal, &info) || info.use == DEVICE_SHARED)
			continue;
		bound++;
		report_remedy("nvidia-smi -i %s -c DEFAULT", uuid_text(info.uuid, uuid));
		fail("device %d (%s) is in compute mode %s: %s", ordinal, info.name,
		     info.use == DEVICE_EXCLUSIVE ? "EXCLUSIVE_PROCESS" : "PROHIBITED",
		     info.use == DEVICE_EXCLUSIVE ? "the broker and a worker are two processes, and the second finds it unavailable" :
						    "no process can use it");
	}
	if (!bound && count > 0)
		ok("no device is in an exclusive compute mode: several processes may use each");
}

/* Finds MIG slices by their names: the driver names one "NVIDIA H200 MIG 1g.18gb". */
void check_mig(struct exam *exam)
{
	int count = exam->device->count(), slices = 0;
	struct device_info info;

	for (int ordinal = 0; ordinal < count; ordinal++)
		slices += !exam->device->info(ordinal, &info) && strstr(info.name, " MIG ");
	if (slices)
		warn("%d of %d device%s is a slice of a divided GPU (MIG): a process sees one slice, and CUDA IPC does not reach another, so "
		     "broker and programs must see the same one",
		     slices, count, count == 1 ? "" : "s");
	else if (count > 0)
		ok("no device is a slice of a divided GPU (MIG)");
}

/* ---- connections to a device: a stream that waits blocks other streams on the same connection ---- */

#define CONNECTIONS_USUAL 8  /* CUDA's default if the variable is not set */
#define CONNECTIONS_MAX   32
#define VALUE_MAX         24
#define VARIABLE          "CUDA_DEVICE_MAX_CONNECTIONS"

/* Checks CUDA_DEVICE_MAX_CONNECTIONS for programs that are started here. broker-run sets it for its workers. */
void check_connections(struct exam *exam)
{
	const char *value = getenv(VARIABLE);
	uint64_t count;

	(void)exam;
	if (!value)
		ok("CUDA_DEVICE_MAX_CONNECTIONS is not set: the streams of a process share %d connections to a device, and one that "
		   "waits for a timeline may hold up others; more are set before a program starts: gpub_signal_on(3)",
		   CONNECTIONS_USUAL);
	else if (number_parse(value, "count of connections", 1, CONNECTIONS_MAX, &count))
		warn("CUDA_DEVICE_MAX_CONNECTIONS is '%.40s', which is no number from 1 to %d", value, CONNECTIONS_MAX);
	else if (count < CONNECTIONS_USUAL)
		warn("CUDA_DEVICE_MAX_CONNECTIONS is %s: as many streams of a process that wait for timelines hold up all its others, "
		     "which can be a deadlock: gpub_signal_on(3)",
		     value);
	else
		ok("CUDA_DEVICE_MAX_CONNECTIONS is %s: as many streams of a process that wait for timelines hold up all its others: "
		   "gpub_signal_on(3)",
		   value);
}

int started_with(pid_t pid, const char *variable, char *value, size_t size)
{
	size_t length = strlen(variable), room = 0;
	char path[40], *line = NULL;
	int found = 0;
	FILE *file;

	snprintf(path, sizeof path, "/proc/%d/environ", pid);
	file = fopen(path, "re");
	if (!file)
		return -1;
	while (!found && getdelim(&line, &room, 0, file) > 0)
		if (!strncmp(line, variable, length) && line[length] == '=') {
			snprintf(value, size, "%s", line + length + 1);
			found = 1;
		}
	free(line);
	fclose(file);
	return found;
}

/* Checks CUDA_DEVICE_MAX_CONNECTIONS of the broker's sessions, in the environment that each was started with. */
void check_sessions(struct exam *exam)
{
	unsigned looked = 0, unset = 0;
	const json_t *session;
	size_t i;

	json_array_foreach(json_object_get(exam->status.text, "sessions"), i, session) {
		pid_t pid = (pid_t)json_integer_value(json_object_get(session, "pid"));
		char value[VALUE_MAX];
		int found = pid == getpid() ? -1 : started_with(pid, VARIABLE, value, sizeof value);
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

void check_visible(struct exam *exam)
{
	const char *variable = exam->host ? "GPUB_HOST_VISIBLE" : "CUDA_VISIBLE_DEVICES", *value = getenv(variable);

	if (value)
		ok("%s is '%s': this process sees those devices only", variable, value);
	else
		ok("%s is not set: this process sees every device", variable);
}

/* ---- the driver ---- */

#define MODULE_VERSION "/sys/module/nvidia/version"

/* Reads the version of NVIDIA's kernel module; "" if none is loaded. Needs no driver library. Returns version. */
static const char *module_version(char version[64])
{
	FILE *file = fopen(MODULE_VERSION, "re");

	*version = 0;
	if (file && fgets(version, 64, file))
		version[strcspn(version, "\n")] = 0;
	if (file)
		fclose(file);
	return version;
}

/* Whether driver version a is older than b. A version is a text such as "525.60.13". */
static bool older(const char *a, const char *b)
{
	unsigned one[3] = { 0 }, other[3] = { 0 };

	sscanf(a, "%u.%u.%u", &one[0], &one[1], &one[2]);
	sscanf(b, "%u.%u.%u", &other[0], &other[1], &other[2]);
	for (int i = 0; i < 3; i++)
		if (one[i] != other[i])
			return one[i] < other[i];
	return false;
}

void check_driver(struct exam *exam)
{
	char version[64];

	(void)exam;
	if (!*module_version(version)) {
		report_remedy("with a GPU, install NVIDIA's driver " CUDA_NEEDED_DRIVER " or newer, and: modprobe nvidia");
		warn("no NVIDIA driver is loaded here");
	} else if (older(version, CUDA_NEEDED_DRIVER)) {
		report_remedy("install driver " CUDA_NEEDED_DRIVER " or newer");
		fail("the NVIDIA driver that is loaded is %s: gpubroker calls functions of CUDA %d.%d, which came with " CUDA_NEEDED_DRIVER,
		     version, CUDA_NEEDED / 1000, CUDA_NEEDED % 1000 / 10);
	} else {
		ok("the NVIDIA driver is loaded: %s", version);
	}
}

/* Checks libcuda.so.1. A library that is too old or damaged was reported when the device was started. */
void check_library(struct exam *exam)
{
	char module[64];
	int version;

	(void)exam;
	if (!device_cuda)
		return;
	if (!device_cuda->driver(&version))
		ok("libcuda.so.1 supports CUDA %d.%d; gpubroker needs %d.%d, which driver " CUDA_NEEDED_DRIVER " and newer ones have",
		   version / 1000, version % 1000 / 10, CUDA_NEEDED / 1000, CUDA_NEEDED % 1000 / 10);
	else if (*module_version(module))
		warn("the NVIDIA driver is loaded (%s), and its library cannot be used: %s", module, error_text());
}

/* Checks that a device file of the driver exists and can be used. Returns true, and reports it, if not. */
static bool node_faulty(const char *path)
{
	char text[ACCESS_TEXT_MAX];
	struct stat st;

	if (stat(path, &st)) {
		report_remedy("nvidia-modprobe -u -c 0 (a container: --gpus all)");
		warn("there is no %s: CUDA cannot reach the driver without it", path);
		return true;
	}
	if (!access(path, R_OK | W_OK))
		return false;
	report_remedy("%s", access_remedy(path, &st, 6, text));
	fail("%s is closed to this process: it is %s's and group %u's, with mode %04o, and CUDA needs to read and write it", path,
	     user_name(st.st_uid), st.st_gid, (unsigned)st.st_mode & 07777);
	return true;
}

/* Checks the driver's device files. Does nothing if the driver is not loaded, because then there are none. */
void check_nodes(struct exam *exam)
{
	char version[64];
	bool faulty = false;
	glob_t found;

	(void)exam;
	if (!*module_version(version))
		return;
	faulty |= node_faulty("/dev/nvidiactl");
	faulty |= node_faulty("/dev/nvidia-uvm");
	if (glob("/dev/nvidia[0-9]*", 0, NULL, &found)) {
		report_remedy("nvidia-modprobe -c 0 (a container: --gpus all)");
		warn("the driver is loaded, and there is no /dev/nvidia0: this process sees no GPU");
		return;
	}
	for (size_t i = 0; i < found.gl_pathc; i++)
		faulty |= node_faulty(found.gl_pathv[i]);
	if (!faulty)
		ok("this process may read and write /dev/nvidiactl, /dev/nvidia-uvm and the files of %zu GPU%s", found.gl_pathc,
		   found.gl_pathc == 1 ? "" : "s");
	globfree(&found);
}

/* ---- MPS ---- */

#define MPS_VARIABLE  "CUDA_MPS_PIPE_DIRECTORY"
#define MPS_DIRECTORY "/tmp/nvidia-mps" /* default if the variable is not set */

/* Returns the daemon's pid from its pid file; 0: not known. The file and the pipe outlive the daemon. */
static pid_t mps_daemon(const char *directory)
{
	char path[MPS_PATH_MAX + 64];
	FILE *file;
	int pid = 0;

	snprintf(path, sizeof path, "%s/nvidia-cuda-mps-control.pid", directory);
	file = fopen(path, "re");
	if (file && fscanf(file, "%d", &pid) != 1)
		pid = 0;
	if (file)
		fclose(file);
	return pid;
}

/* Checks the daemon of a pipe that CUDA programs here would use. */
static void check_mps_daemon(const char *path, const char *directory)
{
	pid_t daemon = mps_daemon(directory);

	if (daemon > 0 && kill(daemon, 0) && errno == ESRCH) {
		report_remedy("rm -r %s; nvidia-cuda-mps-control -d", directory);
		warn("the MPS daemon of %s (pid %d) is gone, and its pipe is still there: CUDA programs here wait for it, and fail", path,
		     daemon);
	} else {
		report_remedy("to run them without it: echo quit | nvidia-cuda-mps-control");
		warn("programs here run under MPS (%s): one that is killed in a kernel takes the others with it, not the broker", path);
	}
}

/* Reports why CUDA programs here do not use MPS. path: of the pipe that they would use. */
static void check_mps_nowhere(const char *path, const char *directory)
{
	struct stat st;

	if (!stat(path, &st)) {
		report_remedy("set " MPS_VARIABLE " to a directory of this user's own");
		warn("the MPS pipe %s belongs to %s: CUDA programs of another user may wait there for that one's to end", path,
		     user_name(st.st_uid));
	} else if (getenv(MPS_VARIABLE)) {
		report_remedy("nvidia-cuda-mps-control -d, or unset " MPS_VARIABLE);
		warn(MPS_VARIABLE " is '%.100s', and no MPS daemon is there: programs here run without MPS", directory);
	} else {
		ok("no MPS daemon is at %s: programs here run without MPS", path);
	}
}

static bool has_pipe(const char *directory)
{
	char path[MPS_PATH_MAX + 16];

	snprintf(path, sizeof path, "%s/control", directory);
	return !access(path, F_OK);
}

/* Warns of sessions that do not share an MPS daemon with programs here: both then run on a GPU by time slices. */
static void check_mps_sessions(const struct exam *exam, const char *directory)
{
	const json_t *session;
	size_t i;

	json_array_foreach(json_object_get(exam->has_status ? exam->status.text : NULL, "sessions"), i, session) {
		pid_t pid = (pid_t)json_integer_value(json_object_get(session, "pid"));
		char value[MPS_PATH_MAX] = MPS_DIRECTORY;

		if (pid == getpid() || started_with(pid, MPS_VARIABLE, value, sizeof value) < 0 ||
		    !strcmp(value, directory) || !(has_pipe(value) || has_pipe(directory)))
			continue;
		report_remedy("start both with the same one: export " MPS_VARIABLE "=%s", value);
		warn("the session of pid %d was started with " MPS_VARIABLE "='%s', and programs here look for MPS in %s: they take turns "
		     "on a GPU",
		     pid, value, directory);
	}
}

void check_mps(struct exam *exam)
{
	char path[MPS_PATH_MAX], directory[MPS_PATH_MAX];
	bool here = mps_is_here(path);

	strcpy(directory, path);
	*strrchr(directory, '/') = 0;
	if (here)
		check_mps_daemon(path, directory);
	else
		check_mps_nowhere(path, directory);
	check_mps_sessions(exam, directory);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* check-devices.c - see checks.h: driver and devices, as far as the library's errors do not tell of them. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
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

void check_devices_alone(struct exam *exam)
{
	const struct device *device;

	(void)exam;
	if (device_select("auto", false, &device)) {
		fail(NULL, "%s", error_text());
		return;
	}
	if (device->driver)
		ok("a broker that is started here serves CUDA devices: %d", device->count());
	else
		ok("a broker that is started here serves the host device: %s",
		   device_cuda ? error_text() : "this gpubroker was built without CUDA");
}

/* ---- connections to a device: a stream that waits blocks other streams on the same connection ---- */

#define CONNECTIONS_USUAL 8 /* CUDA's default if CUDA_DEVICE_MAX_CONNECTIONS is not set */
#define CONNECTIONS_MAX   32

/*
 * Checks CUDA_DEVICE_MAX_CONNECTIONS for programs that are started here. broker-run sets the variable for its workers.
 */
void check_connections(struct exam *exam)
{
	const char *value = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
	uint64_t count = CONNECTIONS_USUAL;

	(void)exam;
	if (value && (number_parse(value, "count", 1, CONNECTIONS_MAX, &count) || count < CONNECTIONS_USUAL))
		warn("export CUDA_DEVICE_MAX_CONNECTIONS=16",
		     "CUDA_DEVICE_MAX_CONNECTIONS is '%.40s', and should be a number from %d to %d: as many streams of "
		     "a process that wait for timelines hold up all its others, which can be a deadlock: "
		     "gpub_signal_on(3)", value, CONNECTIONS_USUAL, CONNECTIONS_MAX);
	else
		ok("CUDA_DEVICE_MAX_CONNECTIONS is %s", value ? value : "not set, which means 8: gpub_signal_on(3)");
}

/* ---- the driver ---- */

/*
 * Sets version to that of NVIDIA's kernel module, without the driver's library. Returns false if no module is loaded.
 */
static bool module_version(char version[64])
{
	FILE *file = fopen("/sys/module/nvidia/version", "re");
	bool is_loaded = file && fgets(version, 64, file);

	if (is_loaded)
		version[strcspn(version, "\n")] = 0;
	if (file)
		fclose(file);
	return is_loaded;
}

void check_driver(struct exam *exam)
{
	char module[64];
	int version;

	(void)exam;
	if (!module_version(module))
		warn("with a GPU, install NVIDIA's driver " CUDA_NEEDED_DRIVER " or newer, and: modprobe nvidia",
		     "no NVIDIA driver is loaded here");
	else
		ok("the NVIDIA driver is loaded: %s; gpubroker needs " CUDA_NEEDED_DRIVER " or newer", module);
	if (device_cuda && !device_cuda->driver(&version))
		ok("libcuda.so.1 supports CUDA %d.%d; gpubroker needs %d.%d", version / 1000, version % 1000 / 10,
		   CUDA_NEEDED / 1000, CUDA_NEEDED % 1000 / 10);
}

/* Opens a file of the driver, which the device cgroup must allow, too. If that fails, reports it and returns false. */
static bool node_opens(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	const char *remedy = "nvidia-modprobe -u -c 0 (a container: --gpus all; a service: DeviceAllow=)";
	char text[ACCESS_TEXT_MAX];
	int error = errno;
	struct stat st;

	if (fd >= 0) {
		close(fd);
		return true;
	}
	if (error == EACCES && !stat(path, &st))
		remedy = access_remedy(path, &st, 6, text);
	fail(remedy, "CUDA cannot use %s here: %s", path, strerror(error));
	return false;
}

/* Does nothing if the driver is not loaded, because then it has no files. */
void check_nodes(struct exam *exam)
{
	static const char *const patterns[] = { "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia[0-9]*" };
	char version[64];
	bool all = true;
	glob_t found;

	(void)exam;
	if (!module_version(version))
		return;
	for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
		if (glob(patterns[i], GLOB_NOMAGIC, NULL, &found)) {
			warn("nvidia-modprobe -c 0 (a container: --gpus all)",
			     "the driver is loaded, and there is no /dev/nvidia0: this process sees no GPU");
			return;
		}
		for (size_t j = 0; j < found.gl_pathc; j++)
			all &= node_opens(found.gl_pathv[j]);
		globfree(&found);
	}
	if (all)
		ok("this process may use the files of the driver in /dev");
}

/* ---- MPS ---- */

void check_mps(struct exam *exam)
{
	char path[MPS_PATH_MAX];

	(void)exam;
	if (mps_is_here(path))
		warn("to run them without it: echo quit | nvidia-cuda-mps-control",
		     "programs here run under MPS (%s%s): one that is killed in a kernel takes the others with it, not "
		     "the broker", path, mps_answers() ? "" : ", where no daemon listens: they fail");
	else if (!access(path, F_OK))
		warn("set CUDA_MPS_PIPE_DIRECTORY to a directory of this user's own",
		     "the MPS pipe %s belongs to another user: CUDA programs here may wait for that one's to end",
		     path);
	else
		ok("no MPS daemon is at %s: programs here run without MPS", path);
}

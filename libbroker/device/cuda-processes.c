/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda-processes.c - finds out by NVML whether the driver still runs work of a process.
 *
 * The driver lists a process, even a dead one, until its work is torn down. It lists a client of MPS under the client's
 * pid, and a second time in the list of MPS clients. Measurements show that a process that is not listed any more
 * writes nothing (docs/facts.md). NVML is opened at run time, by a fixed name, and may be missing. Owns the handle of
 * NVML until the process ends.
 */
#include "cuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "common/error.h"

/* Declarations of nvml.h, which is in no package that the build requires: version 3 of the lists of processes. */
typedef struct nvml_device *nvml_device;

struct nvml_process {
	unsigned           pid;
	unsigned long long memory;
	unsigned           gpu_instance, compute_instance;
};

enum { NVML_SUCCESS = 0, NVML_INSUFFICIENT_SIZE = 7 };

typedef int nvml_init(void);
typedef int nvml_count(unsigned *count);
typedef int nvml_handle(unsigned index, nvml_device *device);
typedef int nvml_list(nvml_device device, unsigned *count, struct nvml_process *processes);

static struct {
	nvml_count  *count;
	nvml_handle *handle;
	/* functions that list processes and MPS clients; NULL: NVML does not have the function */
	nvml_list   *compute, *mps;
} nvml;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void nvml_load(void)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	nvml_init *init = library ? (nvml_init *)dlsym(library, "nvmlInit_v2") : NULL;

	if (!init || init() != NVML_SUCCESS)
		return;
	nvml.count = (nvml_count *)dlsym(library, "nvmlDeviceGetCount_v2");
	nvml.handle = (nvml_handle *)dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
	nvml.mps = (nvml_list *)dlsym(library, "nvmlDeviceGetMPSComputeRunningProcesses_v3");
	if (nvml.count && nvml.handle)
		nvml.compute = (nvml_list *)dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3");
}

/* Returns -EBUSY if the process is in the list, else 0. */
static int find(const struct nvml_process *processes, unsigned count, pid_t pid)
{
	for (unsigned i = 0; i < count; i++)
		if (processes[i].pid == (unsigned)pid)
			return -EBUSY;
	return 0;
}

/*
 * Looks for a process in one of the device's lists. Returns 0 if it is not listed; -EBUSY if it is listed, or memory is
 * short; -ENOTSUP if NVML cannot list the device's processes.
 */
static int look_in(nvml_list *list, nvml_device device, pid_t pid)
{
	struct nvml_process *processes = NULL, *larger;
	unsigned count = 64, room;
	int result, rc = -ENOTSUP;

	do {
		room = count + 64; /* the list may grow between two calls */
		larger = realloc(processes, room * sizeof *processes);
		if (!larger) {
			rc = -EBUSY; /* so that the caller tries again later */
			break;
		}
		processes = larger;
		count = room;
		result = list(device, &count, processes);
		if (result == NVML_SUCCESS)
			rc = find(processes, count < room ? count : room, pid);
	} while (result == NVML_INSUFFICIENT_SIZE);
	free(processes);
	return rc;
}

static int look_on(unsigned index, pid_t pid, bool mps)
{
	nvml_device device;
	int rc;

	if (nvml.handle(index, &device) != NVML_SUCCESS)
		return -ENOTSUP;
	rc = look_in(nvml.compute, device, pid);
	if (!rc && nvml.mps)
		rc = look_in(nvml.mps, device, pid);
	else if (!rc && mps)
		rc = -ENOTSUP;
	return rc;
}

/*
 * Looks for the process on all GPUs, also on those that the broker does not serve, because the process may have mapped
 * memory there. Results as look_in().
 */
static int look_on_all(pid_t pid, bool mps)
{
	unsigned count = 0;
	int rc = 0, one;

	if (!nvml.compute || nvml.count(&count) != NVML_SUCCESS)
		return -ENOTSUP;
	for (unsigned i = 0; i < count; i++) {
		one = look_on(i, pid, mps);
		if (one == -EBUSY)
			return one;
		if (one)
			rc = one;
	}
	return rc;
}

/*
 * If NVML cannot list processes, the death of the process counts as the end of its work, except under MPS, where the
 * MPS server may still run the kernels of a dead process.
 */
int cuda_gone(pid_t pid, bool mps)
{
	int rc;

	pthread_once(&once, nvml_load);
	rc = look_on_all(pid, mps);
	if (rc == -EBUSY)
		return error_set(rc, "the driver still has process %d on a device", pid);
	if (rc && mps)
		return error_set(rc, "it ran under MPS, and no NVML (libnvidia-ml.so.1) here can tell whether its work "
				     "has ended: install the driver's utilities and restart the broker");
	return 0;
}

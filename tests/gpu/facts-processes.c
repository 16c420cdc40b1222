/* SPDX-License-Identifier: Apache-2.0 */
/* facts-processes.c - the facts of processes: death with a kernel running, forks, and two devices. */
#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "facts.h"

/* ---- group: death of a process with a kernel running ---- */

/* Opens what it is sent and keeps writing there, far longer than the test lasts. */
static void victim(int fd)
{
	cudaIpcMemHandle_t handle;
	uint64_t           duration = 15000 * MILLISECONDS;
	void              *ptr, *arguments[] = { &duration, &ptr };

	if (recv(fd, &handle, sizeof(handle), 0) != sizeof(handle))
		return;
	cuda_begin();
	NEED(cudaIpcOpenMemHandle(&ptr, handle, cudaIpcMemLazyEnablePeerAccess));
	NEED(launch(kernel_beat, 0, NULL, arguments));
	for (;;)
		pause();
}

static uint64_t beat_read(const uint64_t *beat)
{
	uint64_t value = 0;

	NEED(cudaMemcpy(&value, beat, sizeof(value), cudaMemcpyDeviceToHost));
	return value;
}

static bool beat_began(const uint64_t *beat)
{
	for (double end = now() + 8; now() < end; pause_ms(20)) {
		if (beat_read(beat))
			return true;
	}
	return false;
}

/* Both, as the broker waits for both; false after 5 s. */
static bool death_seen(int pidfd, int fd)
{
	struct pollfd wait[2] = { { .fd = pidfd, .events = POLLIN }, { .fd = fd, .events = 0 } };

	for (double end = now() + 5; now() < end;) {
		if (poll(wait, 2, 100) <= 0)
			continue;
		if (wait[0].revents & POLLIN)
			wait[0].fd = -1;
		if (wait[1].revents & POLLHUP)
			wait[1].fd = -1;
		if (wait[0].fd < 0 && wait[1].fd < 0)
			return true;
	}
	return false;
}

void death_group(void)
{
	cudaIpcMemHandle_t handle;
	pid_t              pid;
	int                fd = role_start(victim, &pid), pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	uint64_t          *beat, first, second;
	double             start;

	need(pidfd >= 0, "pidfd_open");
	cuda_begin();
	NEED(cudaMalloc((void **)&beat, GRANULE));
	NEED(cudaMemset(beat, 0, GRANULE));
	NEED(cudaDeviceSynchronize());
	NEED(cudaIpcGetMemHandle(&handle, beat));
	need(send(fd, &handle, sizeof(handle), 0) == sizeof(handle), "sending the handle");
	need(beat_began(beat), "the victim's kernel");
	start = now();
	kill(pid, SIGKILL);
	need(death_seen(pidfd, fd), "the victim's death");
	start = now() - start;
	first = beat_read(beat);
	pause_ms(700);
	second = beat_read(beat);
	point(first && first == second, "a killed process's kernel writes nothing once pidfd and socket have said so",
	      "%.3f s after the kill, beat %llu, 0.7 s later %llu", start, (unsigned long long)first,
	      (unsigned long long)second);
}

/* ---- group: CUDA before a fork ---- */

struct forked {
	int         before; /* device_cuda_forked() */
	int         start, descriptors;
	cudaError_t result;
};

static int descriptors_count(void)
{
	DIR           *directory = opendir("/proc/self/fd");
	struct dirent *entry;
	char           target[64];
	int            count = 0;

	while (directory && (entry = readdir(directory))) {
		ssize_t length = readlinkat(dirfd(directory), entry->d_name, target, sizeof(target));

		count += length > 11 && !memcmp(target, "/dev/nvidia", 11);
	}
	if (directory)
		closedir(directory);
	return count;
}

/* The one call of CUDA comes behind what must do without. */
static void forked_child(int fd)
{
	struct device_setup setup = { .owner = false };
	struct forked       seen;
	void               *ptr;

	seen.before = device_cuda_forked();
	seen.start = device_cuda->start(&setup);
	seen.result = cudaMalloc(&ptr, GRANULE);
	device_cuda->child_after_fork();
	seen.descriptors = descriptors_count();
	(void)!write(fd, &seen, sizeof(seen));
}

static void unused_child(int fd)
{
	struct forked seen = { .before = device_cuda_forked() };

	(void)!write(fd, &seen, sizeof(seen));
}

void fork_group(void)
{
	struct forked early, late;
	pid_t         pid;
	int           fd = role_start(unused_child, &pid), mine;

	need(read(fd, &early, sizeof(early)) == sizeof(early), "the child before CUDA");
	cuda_begin();
	mine = descriptors_count();
	fd = role_start(forked_child, &pid);
	need(read(fd, &late, sizeof(late)) == sizeof(late), "the child after CUDA");
	point(late.result == cudaErrorInitializationError, "CUDA started before a fork fails in the child", "%s",
	      cudaGetErrorName(late.result));
	point(!early.before && late.before && !device_cuda_forked() && late.start == -ENOTSUP,
	      "our device notices that without a call of CUDA", "before CUDA %d, after %d, parent %d, start %d",
	      early.before, late.before, device_cuda_forked(), late.start);
	point(mine > 0 && late.descriptors == 0, "a forked child lets go of every descriptor of the driver",
	      "%d, then %d", mine, late.descriptors);
}

/* ---- group: two devices ---- */

void peer_group(void)
{
	static const char    title[] = "memory of device 0 is opened on device 1 and read by its kernels";
	pid_t                pid;
	int                  fd = role_start(exporter, &pid), access = 0;
	struct answer        memory;
	struct device_handle handle;
	uint32_t             value = 0;
	void                *ptr;
	cudaError_t          result;

	cuda_begin();
	if (device_cuda->count() < 2 || cudaDeviceCanAccessPeer(&access, 1, 0) || !access) {
		point_skip(title, "no second CUDA device that reaches the first");
		return;
	}
	memory = ask_allocate(fd, GRANULE, 0x55);
	memcpy(handle.bytes, &memory.handle, sizeof(handle.bytes));
	NEED(device_cuda->open(1, &handle, GRANULE, &ptr));
	NEED(cudaSetDevice(1));
	result = kernel_reads(1, ptr, &value);
	point(!result && value == 0x55555555 && !device_cuda->close(1, ptr), title, "%s, read %x",
	      cudaGetErrorName(result), value);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* facts-vmm.c - the facts of memory that is exported by a descriptor: no call of it waits, and a reset leaves it mapped. */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "facts.h"

#define VALUE 0x77777777u

struct passed {
	struct device_handle handle;
	void                *ptr; /* the owner's */
};

/* ---- the owner ---- */

static int owner_make(struct passed *passed, int *descriptor)
{
	const struct device_setup setup = { .owner = true };
	int                       rc = device_cuda->start(&setup);

	rc = rc ? rc : device_cuda->allocate(0, GRANULE, EXPORT_VMM, &passed->ptr);
	rc = rc ? rc : device_cuda->export_handle(0, passed->ptr, &passed->handle, descriptor);
	return rc || cudaMemset(passed->ptr, VALUE & 0xff, GRANULE) || cudaDeviceSynchronize();
}

static void descriptor_send(int fd, int descriptor, struct passed *passed)
{
	union {
		struct cmsghdr header;
		char           bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec  io = { .iov_base = passed, .iov_len = sizeof(*passed) };
	struct msghdr message = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control.bytes) };

	control.header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(&control.header), &descriptor, sizeof(descriptor));
	(void)!sendmsg(fd, &message, 0);
}

/* Makes memory, passes it on, and frees it when it is told to. */
static void owner(int fd)
{
	struct passed passed;
	int           descriptor, rc;
	char          byte;

	if (owner_make(&passed, &descriptor))
		return;
	descriptor_send(fd, descriptor, &passed);
	if (recv(fd, &byte, 1, 0) != 1)
		return;
	rc = device_cuda->release(0, passed.ptr);
	(void)!send(fd, &rc, sizeof(rc), 0);
	(void)!recv(fd, &byte, 1, 0);
}

static int descriptor_receive(int fd, struct passed *passed)
{
	union {
		struct cmsghdr header;
		char           bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec  io = { .iov_base = passed, .iov_len = sizeof(*passed) };
	struct msghdr message = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control.bytes) };
	int           descriptor = -1;

	need(recvmsg(fd, &message, 0) == sizeof(*passed) && control.header.cmsg_type == SCM_RIGHTS, "the owner's descriptor");
	memcpy(&descriptor, CMSG_DATA(&control.header), sizeof(descriptor));
	return descriptor;
}

/* ---- the importer ---- */

static void vmm_import(const struct passed *passed, int descriptor)
{
	void *ptr = NULL, *again = NULL;
	int   opened = device_cuda->open(0, &passed->handle, descriptor, GRANULE, &ptr);
	int   twice = device_cuda->open(0, &passed->handle, descriptor, GRANULE, &again);

	NEED(opened || twice);
	point(ptr != again && memory_read(ptr) == VALUE && memory_read(again) == VALUE,
	      "memory is imported by its descriptor, each time at addresses of its own", "%p, %p: %#x, %#x", ptr, again, memory_read(ptr),
	      memory_read(again));
	NEED(device_cuda->close_quiesced(0, again) || device_cuda->close_quiesced(0, ptr));
}

static void vmm_beside_a_kernel(const struct passed *passed, int descriptor)
{
	cudaStream_t stream = stream_make();
	double       begun, took, waited;
	void        *ptr;
	int          rc;

	NEED(launch_spin(stream, 600 * MILLISECONDS));
	begun = now();
	rc = device_cuda->open(0, &passed->handle, descriptor, GRANULE, &ptr);
	rc = rc ? rc : device_cuda->close_quiesced(0, ptr);
	took = now() - begun;
	point(!rc && took < 0.3 && cudaStreamQuery(stream) == cudaErrorNotReady, "neither import nor unmap waits for a kernel", "%d, %.0f ms", rc,
	      took * 1e3);
	NEED(device_cuda->open(0, &passed->handle, descriptor, GRANULE, &ptr));
	rc = device_cuda->close(0, ptr);
	waited = now() - begun;
	point(!rc && cudaStreamQuery(stream) == cudaSuccess, "our close of such memory waits for it: the end of a registration does",
	      "%d, after %.0f ms", rc, waited * 1e3);
	cudaStreamDestroy(stream);
}

static void vmm_capture(const struct passed *passed, int descriptor)
{
	struct capture capture;
	void          *ptr;
	int            rc;
	bool           valid;

	capture_start(&capture, cudaStreamNonBlocking);
	rc = device_cuda->open(0, &passed->handle, descriptor, GRANULE, &ptr);
	rc = rc ? rc : device_cuda->close(0, ptr);
	rc = rc ? rc : device_cuda->open(0, &passed->handle, descriptor, GRANULE, &ptr);
	rc = rc ? rc : device_cuda->close_quiesced(0, ptr);
	valid = capture_finish(&capture);
	point(!rc && valid, "import, close and unmap leave another thread's global capture whole", "%d, capture %s", rc,
	      valid ? "valid" : "invalidated");
}

/* The owner's release frees no memory that somebody has mapped. The last one: the reset ends the group's context. */
static void vmm_reset(int fd, const struct passed *passed, int descriptor)
{
	void    *ptr;
	int      rc, released = -1, closed;
	uint32_t value;

	NEED(device_cuda->open(0, &passed->handle, descriptor, GRANULE, &ptr));
	close(descriptor);
	need(send(fd, "", 1, 0) == 1 && recv(fd, &released, sizeof(released), 0) == sizeof(released), "the owner's release");
	point(!released && memory_read(ptr) == VALUE, "what the owner released stays with who has it mapped", "%d, %#x", released, memory_read(ptr));
	rc = cudaDeviceReset();
	value = memory_read(ptr);
	closed = device_cuda->close_quiesced(0, ptr);
	point(!rc && value == VALUE && !closed, "a reset leaves memory of a descriptor mapped", "%d, %#x, unmap %d", rc, value, closed);
}

void vmm_group(void)
{
	struct passed passed;
	pid_t         pid;
	int           fd = role_start(owner, &pid), descriptor;

	descriptor = descriptor_receive(fd, &passed);
	cuda_begin();
	vmm_import(&passed, descriptor);
	vmm_beside_a_kernel(&passed, descriptor);
	vmm_capture(&passed, descriptor);
	vmm_reset(fd, &passed, descriptor);
}

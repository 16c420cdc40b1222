/* SPDX-License-Identifier: Apache-2.0 */
/*
 * facts-vmm.c - the facts of memory that is exported by a descriptor: no call of it waits, and a reset leaves it
 * mapped.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/error.h"
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
	struct msghdr message = {
		.msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control.bytes)
	};

	control.header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
					   .cmsg_level = SOL_SOCKET,
					   .cmsg_type = SCM_RIGHTS };
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
	struct msghdr message = {
		.msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control.bytes)
	};
	int           descriptor = -1;

	need(recvmsg(fd, &message, 0) == sizeof(*passed) && control.header.cmsg_type == SCM_RIGHTS,
	     "the owner's descriptor");
	memcpy(&descriptor, CMSG_DATA(&control.header), sizeof(descriptor));
	return descriptor;
}

/* ---- the importer ---- */

static int map_at(const struct passed *passed, int descriptor, bool writable, void *address, void **ptr)
{
	const struct device_memory memory = { .handle = passed->handle,
					      .export = export_of(EXPORT_VMM),
					      .descriptor = descriptor,
					      .size = GRANULE,
					      .writable = writable,
					      .address = address };

	return device_cuda->map(0, &memory, ptr);
}

static int map(const struct passed *passed, int descriptor, void **ptr)
{
	return map_at(passed, descriptor, true, NULL, ptr);
}

static void vmm_import(const struct passed *passed, int descriptor)
{
	void *ptr = NULL, *again = NULL;
	int   opened = map(passed, descriptor, &ptr);
	int   twice = map(passed, descriptor, &again);

	NEED(opened || twice);
	point(ptr != again && memory_read(ptr) == VALUE && memory_read(again) == VALUE,
	      "memory is imported by its descriptor, each time at addresses of its own", "%p, %p: %#x, %#x", ptr, again,
	      memory_read(ptr), memory_read(again));
	NEED(device_cuda->unmap(0, again) || device_cuda->unmap(0, ptr));
}

static void vmm_beside_a_kernel(const struct passed *passed, int descriptor)
{
	cudaStream_t stream = stream_make();
	double       begun, took, waited;
	void        *ptr;
	int          rc;

	NEED(launch_spin(stream, 600 * MILLISECONDS));
	begun = now();
	rc = map(passed, descriptor, &ptr);
	rc = rc ? rc : device_cuda->unmap(0, ptr);
	took = now() - begun;
	point(!rc && took < 0.3 && cudaStreamQuery(stream) == cudaErrorNotReady,
	      "neither import nor unmap waits for a kernel", "%d, %.0f ms", rc, took * 1e3);
	NEED(map(passed, descriptor, &ptr));
	rc = device_cuda->close(0, ptr);
	waited = now() - begun;
	point(!rc && cudaStreamQuery(stream) == cudaSuccess,
	      "our close of such memory waits for it: the end of a registration does", "%d, after %.0f ms", rc,
	      waited * 1e3);
	cudaStreamDestroy(stream);
}

static void vmm_read_only(const struct passed *passed, int descriptor)
{
	cudaStream_t stream = stream_make();
	double       begun, took;
	void        *ptr, *again = NULL;
	int          rc;

	NEED(map_at(passed, descriptor, false, NULL, &ptr));
	rc = cudaMemcpy(ptr, passed, sizeof(*passed), cudaMemcpyHostToDevice);
	point(memory_read(ptr) == VALUE && rc == cudaErrorInvalidValue && !cudaDeviceSynchronize(),
	      "a copy to memory that is mapped read-only is refused when it is queued", "%#x, %d", memory_read(ptr),
	      rc);
	(void)cudaGetLastError();
	NEED(launch_spin(stream, 600 * MILLISECONDS));
	begun = now();
	rc = device_cuda->map_again(0, ptr, true, &again);
	rc = rc ? rc : device_cuda->make_writable(0, ptr);
	took = now() - begun;
	point(!rc && took < 0.3 && cudaStreamQuery(stream) == cudaErrorNotReady,
	      "neither another mapping of the memory nor a change of its access waits for a kernel", "%d, %.0f ms", rc,
	      took * 1e3);
	cudaStreamSynchronize(stream);
	rc = cudaMemset(again, 0x55, sizeof(uint32_t)) || cudaDeviceSynchronize();
	point(!rc && memory_read(ptr) == 0x55555555u && !cudaMemset(ptr, VALUE & 0xff, sizeof(uint32_t)) &&
		      memory_read(again) == VALUE,
	      "both are the same memory", "%d, %#x", rc, memory_read(ptr));
	NEED(device_cuda->unmap(0, again) || device_cuda->unmap(0, ptr));
	cudaStreamDestroy(stream);
}

#define ADDRESS ((void *)0x440000000000)

static void vmm_address(const struct passed *passed, int descriptor)
{
	void *ptr = NULL, *again = NULL, *taken = NULL;
	int   rc = map_at(passed, descriptor, false, ADDRESS, &ptr), refused;

	rc = rc ? rc : map_at(passed, descriptor, true, ADDRESS, &again);
	rc = rc ? rc : (int)cudaMemset(ptr, VALUE & 0xff, sizeof(uint32_t));
	point(!rc && ptr == ADDRESS && again == ADDRESS && memory_read(ptr) == VALUE,
	      "memory lies at the address that was asked for", "%d, %p, %p", rc, ptr, again);
	NEED(device_cuda->unmap(0, ptr) || device_cuda->unmap(0, ptr));
	need(mmap(ADDRESS, GRANULE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == ADDRESS,
	     "the addresses, given back");
	refused = map_at(passed, descriptor, true, ADDRESS, &taken);
	point(refused == -EADDRINUSE && !taken,
	      "where something else lies there, the driver gives another address, and we an error", "%d, %s", refused,
	      error_text());
	munmap(ADDRESS, GRANULE);
}

static void vmm_capture(const struct passed *passed, int descriptor)
{
	struct capture capture;
	void          *ptr;
	int            rc;
	bool           valid;

	capture_start(&capture, cudaStreamNonBlocking);
	rc = map(passed, descriptor, &ptr);
	rc = rc ? rc : device_cuda->close(0, ptr);
	rc = rc ? rc : map(passed, descriptor, &ptr);
	rc = rc ? rc : device_cuda->unmap(0, ptr);
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

	NEED(map(passed, descriptor, &ptr));
	close(descriptor);
	need(send(fd, "", 1, 0) == 1 && recv(fd, &released, sizeof(released), 0) == sizeof(released),
	     "the owner's release");
	point(!released && memory_read(ptr) == VALUE, "what the owner released stays with who has it mapped", "%d, %#x",
	      released, memory_read(ptr));
	rc = cudaDeviceReset();
	value = memory_read(ptr);
	closed = device_cuda->unmap(0, ptr);
	point(!rc && value == VALUE && !closed, "a reset leaves memory of a descriptor mapped", "%d, %#x, unmap %d", rc,
	      value, closed);
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
	vmm_read_only(&passed, descriptor);
	vmm_address(&passed, descriptor);
	vmm_reset(fd, &passed, descriptor);
}

/* ---- a kernel that writes what is mapped read-only ---- */

/* Says how its kernel ended. */
static void writer(int fd)
{
	struct passed passed;
	void         *ptr;
	int           rc, descriptor = descriptor_receive(fd, &passed);
	uint64_t      duration = 0, value = 1;

	cuda_begin();
	rc = map_at(&passed, descriptor, false, NULL, &ptr);
	rc = rc ? rc : launch(kernel_spin, 0, NULL, (void *[]){ &duration, &ptr, &value });
	rc = rc ? rc : (int)cudaDeviceSynchronize();
	(void)!send(fd, &rc, sizeof(rc), 0);
}

void fault_group(void)
{
	struct passed passed;
	pid_t         pid, writer_pid;
	int           fd = role_start(owner, &pid), to_writer = role_start(writer, &writer_pid), descriptor, ended = -1;
	void         *ptr;

	descriptor = descriptor_receive(fd, &passed);
	cuda_begin();
	NEED(map(&passed, descriptor, &ptr));
	descriptor_send(to_writer, descriptor, &passed);
	need(recv(to_writer, &ended, sizeof(ended), 0) == sizeof(ended), "how the writer's kernel ended");
	point(ended == cudaErrorIllegalAddress,
	      "a kernel that writes memory that its process has mapped read-only ends in an error of that process",
	      "%d", ended);
	point(memory_read(ptr) == VALUE && !cudaDeviceSynchronize(),
	      "and another process, which has mapped the memory, notices nothing", "%#x", memory_read(ptr));
}

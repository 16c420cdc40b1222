/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-fault.c - see host-fault.h
 *
 * Owns the counts of failures still to be injected. A violation aborts the process, because it is a bug of the
 * program under test, which would be hidden if the program went on. Only host_violation_of_others() may return.
 */
#include "host-fault.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"
#include "host-state.h"

static const char *const call_names[HOST_CALLS] = {
	[HOST_OTHER] = "query",	      [HOST_ALLOCATE] = "allocate", [HOST_ZERO] = "zero",
	[HOST_EXPORT] = "export",     [HOST_RELEASE] = "release",   [HOST_OPEN] = "open",
	[HOST_CLOSE] = "close",	      [HOST_REGISTER] = "register", [HOST_STREAM] = "stream",
	[HOST_WRITE] = "write",	      [HOST_WAIT] = "wait",	    [HOST_SYNC] = "sync",
	[HOST_COPY] = "copy",	      [HOST_LAUNCH] = "launch",	    [HOST_MODULE] = "module",
	[HOST_GONE] = "gone",	      [HOST_UNREGISTER] = "unregister", [HOST_ADOPT] = "adopt",
};

/*
 * The failures still to be injected into each kind of call: their number in the high 32 bits, the errno in the low 32
 * bits. One word, so that both change together.
 */
static _Atomic uint64_t due[HOST_CALLS];
static atomic_bool sticky;

/* Writes the report by one write(2), so that the lines of two processes do not mix. */
__attribute__((format(printf, 1, 0))) static void report(const char *format, va_list args)
{
	static const char head[] = "gpubroker host device: VIOLATION: ";
	char line[512];
	size_t length;

	memcpy(line, head, sizeof head);
	vsnprintf(line + sizeof head - 1, sizeof line - sizeof head, format, args);
	length = strlen(line);
	line[length++] = '\n';
	if (write(STDERR_FILENO, line, length) < 0)
		return; /* the report is lost; the caller does what it does after a report */
}

void host_violation(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	report(format, args);
	va_end(args);
	abort();
}

void host_violation_of_others(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	report(format, args);
	va_end(args);
	if (!host_state.lenient)
		abort();
}

void host_fail_next(enum host_call call, int count, int error)
{
	if (call > HOST_OTHER && call < HOST_CALLS)
		atomic_store(&due[call], (uint64_t)(count > 0 ? count : 0) << 32 | (uint32_t)abs(error));
}

void host_make_sticky(void)
{
	atomic_store(&sticky, true);
}

bool host_sticky(void)
{
	return atomic_load(&sticky);
}

int host_sticky_error(void)
{
	return host_sticky() ? error_set(-EIO, "host device: an earlier error in this process is sticky: every call "
					       "fails until it exits") :
			       0;
}

/* If a failure is to be injected into this call, counts the failure and returns its error; else returns 0. */
static int fault_take(enum host_call call)
{
	uint64_t word = atomic_load(&due[call]);
	int error;

	do {
		if (!(word >> 32))
			return 0;
	} while (!atomic_compare_exchange_weak(&due[call], &word, word - (1ull << 32)));
	error = (int)(uint32_t)word;
	return error_set(-error, "host device: an injected failure of %s: %s", call_names[call],
			 strerrordesc_np(error) ? strerrordesc_np(error) : "unknown error");
}

int host_enter(enum host_call call)
{
	if (!atomic_load(&host_state.started))
		return error_set(-ENODEV, "the host device was not started in this process");
	if (host_forked())
		host_violation("a call (%s) in a child forked after the device was started", call_names[call]);
	return host_sticky() ? host_sticky_error() : fault_take(call);
}

int host_enter_device(enum host_call call, int ordinal)
{
	int rc = host_enter(call);

	return rc ? rc : host_device_of(ordinal);
}

static int call_by_name(const char *name, size_t length)
{
	for (int call = HOST_OTHER + 1; call < HOST_CALLS; call++)
		if (strlen(call_names[call]) == length && !memcmp(call_names[call], name, length))
			return call;
	return -EINVAL;
}

static int error_by_name(const char *name, size_t length)
{
	for (int error = 1; error < 134; error++) {
		const char *known = strerrorname_np(error);

		if (known && strlen(known) == length && !memcmp(known, name, length))
			return error;
	}
	return -EINVAL;
}

/* Parses one entry, such as "close:3:EIO", up to a comma or the end of text. Stores the end of the entry in *end. */
static int fault_parse(const char *text, const char **end)
{
	size_t name = strcspn(text, ":,");
	int call = call_by_name(text, name), error;
	char *after;
	unsigned long count;

	if (call < 0 || text[name] != ':' || text[name + 1] < '0' || text[name + 1] > '9')
		return -EINVAL;
	count = strtoul(text + name + 1, &after, 10);
	if (count > 1000000000 || *after != ':')
		return -EINVAL;
	after++;
	error = error_by_name(after, strcspn(after, ","));
	if (error < 0)
		return -EINVAL;
	host_fail_next((enum host_call)call, (int)count, error);
	*end = after + strcspn(after, ",");
	return 0;
}

int host_faults_parse(const char *text)
{
	while (text && *text) {
		if (fault_parse(text, &text))
			return error_set(-EINVAL,
					 "GPUB_HOST_FAIL: '%.60s' is not CALL:COUNT:ERRNO, such as close:3:EIO; "
					 "separate several by commas",
					 text);
		if (*text == ',')
			text++;
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c - see trace.h */
#include "trace.h"

#if HAVE_NVTX

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <nvtx3/nvToolsExt.h>

#include "common/environment.h"
#include "common/name.h"

_Atomic(pid_t) trace_process;

static nvtxDomainHandle_t domain;

/* Does not use pthread_once(): a child that is forked during the call would wait for a thread that it does not have. */
void trace_start(void)
{
	static atomic_flag begun = ATOMIC_FLAG_INIT;

	if (atomic_flag_test_and_set(&begun) || environment_is_untrusted())
		return;
	domain = nvtxDomainCreateA("gpubroker");
	if (domain)
		atomic_store(&trace_process, getpid());
}

bool trace_push(const char *format, ...)
{
	char text[NAME_SIZE + 32];
	nvtxEventAttributes_t range = { .version = NVTX_VERSION,
					.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
					.messageType = NVTX_MESSAGE_TYPE_ASCII,
					.message.ascii = text };
	va_list args;

	if (atomic_load(&trace_process) != getpid())
		return false;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	nvtxDomainRangePushEx(domain, &range);
	return true;
}

void trace_pop(void)
{
	nvtxDomainRangePop(domain);
}

#endif

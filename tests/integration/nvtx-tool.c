/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvtx-tool.c - to NVTX what a profiler is: loaded by NVTX_INJECTION64_PATH into a program under test, it notes the
 * ranges of each domain in the file that NVTX_TOOL_BOOK names, a line an event, as trace.c reads them:
 *
 *   PID TID =DOMAIN    a domain is made
 *   PID TID (MESSAGE   a range begins
 *   PID TID )          the last that this thread began ends
 *
 * The file is there already. Never looks at ranges that are in no domain.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t table);

static int book = -1;

static void note(char what, const char *text)
{
	char line[256];
	int size = snprintf(line, sizeof line, "%d %d %c%s\n", getpid(), gettid(), what, text);

	if (write(book, line, (size_t)size) != size)
		abort();
}

static nvtxDomainHandle_t on_domain(const char *name)
{
	static char domain;

	note('=', name);
	return (nvtxDomainHandle_t)(void *)&domain;
}

static int on_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *range)
{
	(void)domain;
	note('(', range->messageType == NVTX_MESSAGE_TYPE_ASCII ? range->message.ascii : "no text");
	return 0;
}

static int on_pop(nvtxDomainHandle_t domain)
{
	(void)domain;
	note(')', "");
	return 0;
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t table)
{
	const NvtxExportTableCallbacks *callbacks = table(NVTX_ETID_CALLBACKS);
	const char *path = getenv("NVTX_TOOL_BOOK");
	NvtxFunctionTable functions;
	unsigned size;

	if (!path || !callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &size) ||
	    size <= NVTX_CBID_CORE2_DomainCreateA)
		return 0;
	book = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	*functions[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)on_domain;
	*functions[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)on_push;
	*functions[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)on_pop;
	return book >= 0;
}

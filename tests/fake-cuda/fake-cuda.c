/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake-cuda.c - the fake driver's orders and counts, and the two functions that every libcuda.so.1 exports.
 *
 * Owns the table of orders and call counts of each function, behind one lock. Knows nothing of devices: the functions
 * are in the other files. gpubroker finds them by name through cuGetProcAddress_v2(), so they are not exported.
 */
#include "fake-cuda.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/cuda.h"
#include "inner.h"

#define FUNCTIONS_MAX 128
#define NAME_MAX_SIZE 64

struct fake_setup fake_setup;

static struct answer {
	char     name[NAME_MAX_SIZE];
	bool     missing;
	CUresult result;
	unsigned times; /* how often it returns result; UINT_MAX: always */
	unsigned calls;
} answers[FUNCTIONS_MAX];

static size_t          answer_count;
static bool            ordered;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const struct fake_function *const parts[] = { fake_devices, fake_contexts, fake_memory, fake_vmm, fake_streams,
						       fake_libraries };

/*
 * Stands for each function that gpubroker finds and the fake does not have. It ignores its arguments, whatever their
 * number: they are in registers and on the caller's stack.
 */
static CUresult unsupported(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

static const char *const known[] = {
	"cuDriverGetVersion",
	"cuGetProcAddress_v2",
#define KNOWN(name, version) "cu" #name,
	CUDA_FUNCTIONS(KNOWN) CUDA_OPTIONAL(KNOWN)
#undef KNOWN
};

/* ---- orders ---- */

static void refuse(const char *why, const char *what)
{
	fprintf(stderr, "fake driver: %s: '%s' (see tests/fake-cuda/fake-cuda.h)\n", why, what);
	abort();
}

static void *function_of(const char *name)
{
	for (size_t part = 0; part < sizeof parts / sizeof *parts; part++)
		for (const struct fake_function *row = parts[part]; row->name; row++)
			if (!strcmp(row->name, name))
				return row->function;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (!strcmp(known[i], name))
			return (void *)unsupported;
	return NULL;
}

/* Called with the lock. */
static struct answer *answer_of(const char *name)
{
	for (size_t i = 0; i < answer_count; i++)
		if (!strcmp(answers[i].name, name))
			return &answers[i];
	if (answer_count == FUNCTIONS_MAX || strlen(name) >= NAME_MAX_SIZE)
		refuse("no place for a function", name);
	strcpy(answers[answer_count].name, name);
	return &answers[answer_count++];
}

static struct answer *answer_ordered(const char *name)
{
	if (!function_of(name))
		refuse("no such function", name);
	return answer_of(name);
}

static unsigned long number_of(const char *text, char **end, const char *order)
{
	unsigned long number = strtoul(text, end, 10);

	if (*end == text)
		refuse("no number", order);
	return number;
}

/* A function's own order: RESULT, or RESULT*TIMES. */
static void order_answer(const char *function, const char *value, const char *order)
{
	struct answer *answer = answer_ordered(function);
	char          *end;

	answer->result = (CUresult)number_of(value, &end, order);
	answer->times = UINT_MAX;
	if (*end == '*')
		answer->times = (unsigned)number_of(end + 1, &end, order);
	if (*end)
		refuse("not understood", order);
}

static void order_number(const char *key, const char *value, const char *order)
{
	char         *end;
	unsigned long number = number_of(value, &end, order);

	if (*end)
		refuse("not understood", order);
	if (!strcmp(key, "version"))
		fake_setup.version = (int)number;
	else if (!strcmp(key, "devices") && number <= FAKE_DEVICES)
		fake_setup.devices = (int)number;
	else if (!strcmp(key, "memory"))
		fake_setup.memory = (uint64_t)number << 20;
	else
		refuse("not understood", order);
}

static void order_take(const char *order)
{
	char  key[NAME_MAX_SIZE];
	const char *value = strchr(order, '=');

	if (!value || (size_t)(value - order) >= sizeof key)
		refuse("not understood", order);
	memcpy(key, order, (size_t)(value - order));
	key[value++ - order] = 0;
	if (!strcmp(key, "missing"))
		answer_ordered(value)->missing = true;
	else if (!strncmp(key, "cu", 2))
		order_answer(key, value, order);
	else
		order_number(key, value, order);
}

/* Called with the lock. Counts stay. */
static void orders_set(const char *orders)
{
	char *text = strdup(orders ? orders : ""), *place = NULL;

	fake_setup = (struct fake_setup){ .version = CUDA_NEEDED, .devices = 1, .memory = 1ull << 30 };
	for (size_t i = 0; i < answer_count; i++) {
		answers[i].missing = false;
		answers[i].times = 0;
	}
	for (char *order = strtok_r(text, " ", &place); order; order = strtok_r(NULL, " ", &place))
		order_take(order);
	free(text);
	ordered = true;
}

static void lock_take(void)
{
	pthread_mutex_lock(&lock);
	if (!ordered)
		orders_set(getenv("FAKE_CUDA"));
}

void fake_cuda_order(const char *orders)
{
	lock_take();
	orders_set(orders ? orders : getenv("FAKE_CUDA"));
	pthread_mutex_unlock(&lock);
}

/* ---- calls ---- */

static void log_call(const char *name)
{
	const char *path = getenv("FAKE_CUDA_LOG");
	int         file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;

	if (file < 0)
		return;
	dprintf(file, "%s\n", name);
	close(file);
}

static CUresult call_named(const char *name)
{
	struct answer *answer;
	CUresult       result = CUDA_SUCCESS;

	lock_take();
	answer = answer_of(name);
	answer->calls++;
	if (answer->times) {
		result = answer->result;
		answer->times -= answer->times != UINT_MAX;
	}
	pthread_mutex_unlock(&lock);
	log_call(name);
	return result;
}

/* These may be called before the driver is started. */
static bool is_early(const char *name)
{
	return !strcmp(name, "cuInit") || !strcmp(name, "cuGetErrorName") || !strcmp(name, "cuDriverGetVersion");
}

CUresult fake_call(const char *function)
{
	char     name[NAME_MAX_SIZE];
	CUresult result;

	snprintf(name, sizeof name, "cu%s", function);
	result = call_named(name);
	return result == CUDA_SUCCESS && !is_early(name) && !fake_started() ? CUDA_ERROR_NOT_INITIALIZED : result;
}

unsigned fake_cuda_calls(const char *function)
{
	unsigned calls;

	lock_take();
	calls = answer_ordered(function)->calls;
	pthread_mutex_unlock(&lock);
	return calls;
}

/* ---- what is exported as libcuda.so.1 exports it ---- */

#if !HAVE_CUDA_TOOLKIT /* whose header declares them */
CUresult cuDriverGetVersion(int *version);
CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
			     CUdriverProcAddressQueryResult *found);
#endif

static bool is_missing(const char *name)
{
	bool missing;

	lock_take();
	missing = answer_of(name)->missing;
	pthread_mutex_unlock(&lock);
	return missing;
}

CUresult cuDriverGetVersion(int *version)
{
	CUresult result = call_named("cuDriverGetVersion");

	if (result == CUDA_SUCCESS)
		*version = fake_setup.version;
	return result;
}

/* Ignores the version: each function has only the form that gpubroker needs. */
CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
			     CUdriverProcAddressQueryResult *found)
{
	CUresult result = call_named("cuGetProcAddress_v2");

	(void)version;
	if (result != CUDA_SUCCESS)
		return result;
	*function = flags == CU_GET_PROC_ADDRESS_LEGACY_STREAM && !is_missing(symbol) ? function_of(symbol) : NULL;
	if (found)
		*found = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

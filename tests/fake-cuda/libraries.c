/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libraries.c - the fake driver's files of kernels: each has the two kernels "one", with one parameter, and "none",
 * with none.
 *
 * Owns each library and kernel, in a list: what is never unloaded is no leak of the program. A launch runs nothing.
 */
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "inner.h"

#define SHARED_PLAIN (48u << 10) /* bytes of dynamic shared memory; more needs the attribute */

struct CUkern_st {
	const char *name;
	size_t      parameters;
	CUlibrary   library;
	struct {
		uint64_t     context; /* where it was allowed: a reset ends that */
		unsigned int bytes;
	} shared[FAKE_DEVICES];
};

struct CUlib_st {
	struct CUkern_st kernels[2];
	struct CUlib_st *prev, *next;
};

static CUlibrary       loaded;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static CUresult fake_LibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *jit_options,
					 void **jit_values, unsigned int jit_count, CUlibraryOption *options,
					 void **values, unsigned int count)
{
	struct CUlib_st *made;

	FAKE_CALL();
	(void)path, (void)jit_options, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
	made = calloc(1, sizeof *made);
	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	made->kernels[0] = (struct CUkern_st){ .name = "one", .parameters = 1, .library = made };
	made->kernels[1] = (struct CUkern_st){ .name = "none", .library = made };
	pthread_mutex_lock(&lock);
	DL_APPEND(loaded, made);
	pthread_mutex_unlock(&lock);
	*library = made;
	return CUDA_SUCCESS;
}

static CUresult fake_LibraryUnload(CUlibrary library)
{
	FAKE_CALL();
	pthread_mutex_lock(&lock);
	DL_DELETE(loaded, library);
	pthread_mutex_unlock(&lock);
	free(library);
	return CUDA_SUCCESS;
}

static CUresult fake_LibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
	FAKE_CALL();
	for (int i = 0; i < 2; i++)
		if (!strcmp(library->kernels[i].name, name))
			return *kernel = &library->kernels[i], CUDA_SUCCESS;
	return CUDA_ERROR_NOT_FOUND;
}

static CUresult fake_LibraryGetKernelCount(unsigned int *count, CUlibrary library)
{
	FAKE_CALL();
	(void)library;
	*count = 2;
	return CUDA_SUCCESS;
}

static CUresult fake_LibraryEnumerateKernels(CUkernel *kernels, unsigned int count, CUlibrary library)
{
	FAKE_CALL();
	for (unsigned int i = 0; i < count && i < 2; i++)
		kernels[i] = &library->kernels[i];
	return CUDA_SUCCESS;
}

static CUresult fake_LibraryGetModule(CUmodule *module, CUlibrary library)
{
	FAKE_CALL();
	if (!fake_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	*module = (CUmodule)library;
	return CUDA_SUCCESS;
}

static CUresult fake_KernelGetFunction(CUfunction *function, CUkernel kernel)
{
	FAKE_CALL();
	if (!fake_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	*function = (CUfunction)kernel;
	return CUDA_SUCCESS;
}

static CUresult fake_FuncLoad(CUfunction function)
{
	FAKE_CALL();
	(void)function;
	return CUDA_SUCCESS;
}

static CUresult fake_KernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size)
{
	FAKE_CALL();
	if (index >= kernel->parameters)
		return CUDA_ERROR_INVALID_VALUE;
	*offset = 8 * index;
	*size = 8;
	return CUDA_SUCCESS;
}

static CUresult fake_KernelGetParamCount(CUkernel kernel, size_t *count)
{
	FAKE_CALL();
	*count = kernel->parameters;
	return CUDA_SUCCESS;
}

static CUresult fake_KernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device)
{
	FAKE_CALL();
	if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!fake_current() || fake_current()->device != device)
		return CUDA_ERROR_INVALID_CONTEXT;
	kernel->shared[device].context = fake_current()->id;
	kernel->shared[device].bytes = (unsigned int)value;
	return CUDA_SUCCESS;
}

static bool shared_is_allowed(const struct CUkern_st *kernel, unsigned int bytes)
{
	CUcontext context = fake_current();

	return bytes <= SHARED_PLAIN || (kernel->shared[context->device].context == context->id &&
					 kernel->shared[context->device].bytes >= bytes);
}

static CUresult fake_LaunchKernel(CUfunction function, unsigned int x, unsigned int y, unsigned int z, unsigned int bx,
				  unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **args,
				  void **extra)
{
	FAKE_CALL();
	(void)x, (void)y, (void)z, (void)bx, (void)by, (void)bz, (void)stream, (void)args, (void)extra;
	if (!fake_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	return shared_is_allowed((CUkernel)function, shared) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

const struct fake_function fake_libraries[] = {
	FAKE_ROW(LibraryLoadFromFile, 12000),
	FAKE_ROW(LibraryUnload, 12000),
	FAKE_ROW(LibraryGetKernel, 12000),
	FAKE_ROW(LibraryGetKernelCount, 12040),
	FAKE_ROW(LibraryEnumerateKernels, 12040),
	FAKE_ROW(LibraryGetModule, 12000),
	FAKE_ROW(KernelGetFunction, 12000),
	FAKE_ROW(FuncLoad, 12040),
	FAKE_ROW(KernelSetAttribute, 12000),
	FAKE_ROW(KernelGetParamInfo, 12040),
	{ "cuKernelGetParamCount", (void *)fake_KernelGetParamCount },
	FAKE_ROW(LaunchKernel, 4000),
	{ 0 },
};

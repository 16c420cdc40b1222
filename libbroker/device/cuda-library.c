/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda-library.c - finds the NVIDIA driver's library, and the driver functions that this library calls.
 *
 * Owns the table of functions. Opens the driver's library at run time, by a fixed name, so that a binary built with
 * CUDA runs on a machine without a driver. The driver's library stays open, because a driver that has started cannot
 * be unloaded. Never calls cuInit, and never uses the CUDA runtime, whose last error belongs to the program, and
 * which needs the driver of its toolkit.
 */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "common/error.h"
#include "device/cuda.h"

#define LIBRARY "libcuda.so.1"

struct cuda_driver cuda;

static const struct {
	const char  *name;
	unsigned int version;
	size_t       offset;
	bool         optional;
} functions[] = {
#define CUDA_ROW(name, version) { "cu" #name, version, offsetof(struct cuda_driver, name), false },
	CUDA_FUNCTIONS(CUDA_ROW)
#undef CUDA_ROW
#define CUDA_ROW(name, version) { "cu" #name, version, offsetof(struct cuda_driver, name), true },
	CUDA_OPTIONAL(CUDA_ROW)
#undef CUDA_ROW
};

#define CUDA_ROW(name, version) \
	_Static_assert((version) <= CUDA_NEEDED, \
		       "cu" #name " makes the needed driver newer: device.h, README, gpubroker(7)");
CUDA_FUNCTIONS(CUDA_ROW)
#undef CUDA_ROW

/* ---- the library ---- */

/*
 * Whether dlopen() failed because the driver's library is in no directory. reason: the text of dlerror(), in the
 * user's language. If the library is missing, the text begins with the library's name without a path and ends with
 * ENOENT's text. Otherwise the text begins with the path of a file that was found, or with the name of a library that
 * it needs.
 */
static bool is_absent(const char *reason)
{
	const char *no_file = strerror(ENOENT);
	size_t      length = strlen(reason), tail = strlen(no_file);

	return !strncmp(reason, LIBRARY ":", strlen(LIBRARY ":")) && length > tail &&
	       !strcmp(reason + length - tail, no_file);
}

static int library_open(void **library)
{
	const char *reason;

	*library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (*library)
		return 0;
	reason = dlerror();
	if (!reason)
		reason = "the dynamic loader does not say why";
	if (is_absent(reason))
		return error_set(-ENODEV, "no NVIDIA driver: " LIBRARY " is not found; install the driver, show it to "
								       "the container, or choose the host device");
	return error_set(-EIO, "the NVIDIA driver's library cannot be loaded: %.180s; reinstall the driver", reason);
}

/* Returns the path of the driver's library, for messages. The text is valid while the library is loaded. */
static const char *library_path(void *library)
{
	Dl_info info;
	void   *function = dlsym(library, "cuDriverGetVersion");

	return function && dladdr(function, &info) && info.dli_fname ? info.dli_fname : LIBRARY;
}

static int library_broken(void *library, CUresult result)
{
	if (result == CUDA_ERROR_STUB_LIBRARY)
		return error_set(-EIO,
				 "%.120s is a stub of the CUDA toolkit, which is for linking and drives no GPU: take "
				 "its folder off LD_LIBRARY_PATH and install the NVIDIA driver",
				 library_path(library));
	return error_set(-EIO, "%.120s does not report its version (CUDA error %d): reinstall the NVIDIA driver",
			 library_path(library), (int)result);
}

/* Stores the newest CUDA version that the driver supports. May be called before cuInit, and uses no device. */
static int library_version(void *library, int *version)
{
	PFN_cuDriverGetVersion_v2020 ask = (PFN_cuDriverGetVersion_v2020)dlsym(library, "cuDriverGetVersion");
	int                          answer = 0;
	CUresult                     result = ask ? ask(&answer) : CUDA_ERROR_NOT_FOUND;

	if (result != CUDA_SUCCESS)
		return library_broken(library, result);
	if (answer < CUDA_NEEDED)
		return error_set(-ENOTSUP,
				 "the NVIDIA driver is too old: it supports CUDA %d.%d, and gpubroker needs %d.%d; "
				 "install driver " CUDA_NEEDED_DRIVER " or newer",
				 answer / 1000, answer % 1000 / 10, CUDA_NEEDED / 1000, CUDA_NEEDED % 1000 / 10);
	*version = answer;
	return 0;
}

/* ---- its functions ---- */

/*
 * Whether a driver that supports CUDA `version` has function number `i`. Other functions are not looked up, because
 * compute-sanitizer counts a failed look-up as an error.
 */
static bool function_is_expected(size_t i, int version)
{
	return !functions[i].optional || functions[i].version <= (unsigned int)version;
}

/*
 * Returns the function in its form of CUDA `version`, in which a NULL stream is the legacy stream. NULL: the driver has
 * no such function.
 */
static void *function_find(PFN_cuGetProcAddress_v12000 find, const char *name, unsigned int version)
{
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	void                          *function = NULL;
	CUresult result = find(name, &function, (int)version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status);

	return result == CUDA_SUCCESS && status == CU_GET_PROC_ADDRESS_SUCCESS ? function : NULL;
}

static int function_missing(void *library, int version, const char *name)
{
	return error_set(-EIO, "%.120s calls itself CUDA %d.%d and has no %s: reinstall the NVIDIA driver",
			 library_path(library), version / 1000, version % 1000 / 10, name);
}

static int functions_find(void *library, int version)
{
	PFN_cuGetProcAddress_v12000 find = (PFN_cuGetProcAddress_v12000)dlsym(library, "cuGetProcAddress_v2");
	struct cuda_driver          found = { 0 };

	if (!find)
		return function_missing(library, version, "cuGetProcAddress_v2");
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *function = NULL;

		if (function_is_expected(i, version))
			function = function_find(find, functions[i].name, functions[i].version);
		if (!function && !functions[i].optional)
			return function_missing(library, version, functions[i].name);
		*(void **)((char *)&found + functions[i].offset) = function;
	}
	cuda = found;
	return 0;
}

int cuda_library_load(void)
{
	void *library;
	int   version, rc = library_open(&library);

	if (!rc)
		rc = library_version(library, &version);
	return rc ? rc : functions_find(library, version);
}

int cuda_library_version(int *version)
{
	void *library;
	int   rc = library_open(&library);

	return rc ? rc : library_version(library, version);
}

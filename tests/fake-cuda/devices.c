/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devices.c - the fake driver's start, and the properties of its devices.
 *
 * Owns the process in which it was started. Each device has a name and a UUID by its number, the same in every
 * process. CUDA_VISIBLE_DEVICES is ignored.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "inner.h"

static pid_t started_in; /* 0: nowhere yet */

bool fake_started(void)
{
	return started_in == getpid();
}

static CUresult fake_Init(unsigned int flags)
{
	FAKE_CALL();
	(void)flags;
	if (started_in && !fake_started())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!fake_setup.devices)
		return CUDA_ERROR_NO_DEVICE;
	started_in = getpid();
	return CUDA_SUCCESS;
}

/* Results that tests order. Others are unknown, as to a driver that is older than they are. */
static const struct {
	CUresult    result;
	const char *name;
} names[] = {
#define NAME(result) { result, #result }
	NAME(CUDA_SUCCESS), NAME(CUDA_ERROR_INVALID_VALUE), NAME(CUDA_ERROR_OUT_OF_MEMORY),
	NAME(CUDA_ERROR_NOT_INITIALIZED), NAME(CUDA_ERROR_STUB_LIBRARY), NAME(CUDA_ERROR_DEVICE_UNAVAILABLE),
	NAME(CUDA_ERROR_NO_DEVICE), NAME(CUDA_ERROR_INVALID_DEVICE), NAME(CUDA_ERROR_INVALID_CONTEXT),
	NAME(CUDA_ERROR_OPERATING_SYSTEM), NAME(CUDA_ERROR_INVALID_HANDLE), NAME(CUDA_ERROR_NOT_FOUND),
	NAME(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED), NAME(CUDA_ERROR_NOT_SUPPORTED),
	NAME(CUDA_ERROR_SYSTEM_NOT_READY), NAME(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH), NAME(CUDA_ERROR_UNKNOWN),
#undef NAME
};

static CUresult fake_GetErrorName(CUresult result, const char **name)
{
	FAKE_CALL();
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (names[i].result == result) {
			*name = names[i].name;
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_INVALID_VALUE;
}

static bool is_device(CUdevice device)
{
	return device >= 0 && device < fake_setup.devices;
}

static CUresult fake_DeviceGetCount(int *count)
{
	FAKE_CALL();
	*count = fake_setup.devices;
	return CUDA_SUCCESS;
}

static CUresult fake_DeviceGetName(char *name, int size, CUdevice device)
{
	FAKE_CALL();
	if (!is_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(name, (size_t)size, "Fake GPU %d", device);
	return CUDA_SUCCESS;
}

static CUresult fake_DeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	FAKE_CALL();
	if (!is_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	memset(uuid->bytes, 0xfa, sizeof uuid->bytes);
	uuid->bytes[0] = (char)device;
	return CUDA_SUCCESS;
}

static CUresult fake_DeviceTotalMem(size_t *bytes, CUdevice device)
{
	FAKE_CALL();
	if (!is_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	*bytes = fake_setup.memory;
	return CUDA_SUCCESS;
}

/* Device N is at 0000:0N+1:00.0. Every other attribute is supported. */
static CUresult fake_DeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	FAKE_CALL();
	if (!is_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	switch (attribute) {
	case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
		*value = device + 1;
		break;
	case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
	case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
		*value = 0;
		break;
	default:
		*value = 1;
	}
	return CUDA_SUCCESS;
}

const struct fake_function fake_devices[] = {
	FAKE_ROW(Init, 2000),
	FAKE_ROW(GetErrorName, 6000),
	FAKE_ROW(DeviceGetCount, 2000),
	FAKE_ROW(DeviceGetName, 2000),
	FAKE_ROW(DeviceGetUuid, 11040),
	FAKE_ROW(DeviceTotalMem, 3020),
	FAKE_ROW(DeviceGetAttribute, 2000),
	{ 0 },
};

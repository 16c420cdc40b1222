/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda-abi.h - the part of the CUDA driver's binary interface that the cuda device and tests/fake-cuda use, for builds
 * without a toolkit.
 *
 * Types, numbers and functions have the names of NVIDIA's cuda.h and cudaTypedefs.h. In builds with a toolkit, this
 * project's cuda.h includes those two instead of this file. The driver never changes a function with a given version,
 * which is part of the function type's name. tests/install/cuda-abi.sh compares this file with a toolkit. Owns nothing.
 */
#ifndef GPUB_CUDA_ABI_H
#define GPUB_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

#define CUDAAPI

/* ---- types ---- */

typedef int                CUdevice;
typedef unsigned long long CUdeviceptr;
typedef uint64_t           cuuint64_t;

typedef struct CUctx_st     *CUcontext;
typedef struct CUevent_st   *CUevent;
typedef struct CUfunc_st    *CUfunction;
typedef struct CUkern_st    *CUkernel;
typedef struct CUlib_st     *CUlibrary;
typedef struct CUmod_st     *CUmodule;
typedef struct CUstream_st  *CUstream;

typedef struct {
	char bytes[16];
} CUuuid;

typedef struct {
	char reserved[64]; /* CU_IPC_HANDLE_SIZE */
} CUipcMemHandle;

/* ---- numbers ---- */

typedef enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_DEINITIALIZED = 4,
	CUDA_ERROR_STUB_LIBRARY = 34,
	CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_INVALID_DEVICE = 101,
	CUDA_ERROR_DEVICE_NOT_LICENSED = 102,
	CUDA_ERROR_INVALID_IMAGE = 200,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_MAP_FAILED = 205,
	CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
	CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217,
	CUDA_ERROR_INVALID_PTX = 218,
	CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221,
	CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
	CUDA_ERROR_JIT_COMPILATION_DISABLED = 223,
	CUDA_ERROR_INVALID_SOURCE = 300,
	CUDA_ERROR_FILE_NOT_FOUND = 301,
	CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND = 302,
	CUDA_ERROR_SHARED_OBJECT_INIT_FAILED = 303,
	CUDA_ERROR_OPERATING_SYSTEM = 304,
	CUDA_ERROR_INVALID_HANDLE = 400,
	CUDA_ERROR_NOT_FOUND = 500,
	CUDA_ERROR_NOT_READY = 600,
	CUDA_ERROR_ILLEGAL_ADDRESS = 700,
	CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
	CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
	CUDA_ERROR_TOO_MANY_PEERS = 711,
	CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
	CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
	CUDA_ERROR_NOT_PERMITTED = 800,
	CUDA_ERROR_NOT_SUPPORTED = 801,
	CUDA_ERROR_SYSTEM_NOT_READY = 802,
	CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
	CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804,
	CUDA_ERROR_MPS_CONNECTION_FAILED = 805,
	CUDA_ERROR_MPS_RPC_FAILURE = 806,
	CUDA_ERROR_MPS_SERVER_NOT_READY = 807,
	CUDA_ERROR_MPS_MAX_CLIENTS_REACHED = 808,
	CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED = 809,
	CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
	CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
	CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
	CUDA_ERROR_UNKNOWN = 999,
} CUresult;

typedef enum {
	CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
	CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
	CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50,
	CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM = 91,
	CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES = 100,
	CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED = 113,
	CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS = 122,
} CUdevice_attribute;

typedef enum {
	CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
} CUfunction_attribute;

typedef enum {
	CU_GET_PROC_ADDRESS_SUCCESS = 0,
	CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
} CUdriverProcAddressQueryResult;

typedef enum {
	CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
	CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
	CU_STREAM_CAPTURE_MODE_RELAXED = 2,
} CUstreamCaptureMode;

typedef enum {
	CU_STREAM_CAPTURE_STATUS_NONE = 0,
	CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
} CUstreamCaptureStatus;

typedef unsigned long long CUmemGenericAllocationHandle;

typedef enum {
	CU_MEM_ALLOCATION_TYPE_PINNED = 1,
} CUmemAllocationType;

typedef enum {
	CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1,
} CUmemAllocationHandleType;

typedef enum {
	CU_MEM_LOCATION_TYPE_DEVICE = 1,
} CUmemLocationType;

typedef enum {
	CU_MEM_ACCESS_FLAGS_PROT_READ = 1,
	CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
} CUmemAccess_flags;

typedef struct {
	CUmemLocationType type;
	int               id;
} CUmemLocation;

typedef struct {
	CUmemAllocationType       type;
	CUmemAllocationHandleType requestedHandleTypes;
	CUmemLocation             location;
	void                     *win32HandleMetaData;
	struct {
		unsigned char  compressionType, gpuDirectRDMACapable;
		unsigned short usage;
		unsigned char  reserved[4];
	} allocFlags;
} CUmemAllocationProp;

typedef struct {
	CUmemLocation     location;
	CUmemAccess_flags flags;
} CUmemAccessDesc;

typedef enum {
	CU_STREAM_MEM_OP_WAIT_VALUE_64 = 4,
	CU_STREAM_MEM_OP_WRITE_VALUE_64 = 5,
} CUstreamBatchMemOpType;

typedef union {
	struct {
		CUstreamBatchMemOpType operation;
		CUdeviceptr            address;
		cuuint64_t             value64;
		unsigned int           flags;
		CUdeviceptr            alias; /* used by the driver only */
	} waitValue, writeValue;
	cuuint64_t pad[6];
} CUstreamBatchMemOpParams;

/* Options of cuLibraryLoadFromFile, of which this project passes none. */
typedef int CUjit_option;
typedef int CUlibraryOption;

#define CU_EVENT_DISABLE_TIMING             2
#define CU_GET_PROC_ADDRESS_LEGACY_STREAM   1
#define CU_IPC_HANDLE_SIZE                  64
#define CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS  1
#define CU_MEMHOSTREGISTER_PORTABLE         1
#define CU_MEMHOSTREGISTER_DEVICEMAP        2
#define CU_MEMHOSTREGISTER_READ_ONLY        8
#define CU_STREAM_NON_BLOCKING              1
#define CU_STREAM_WAIT_VALUE_GEQ            0
#define CU_STREAM_WRITE_VALUE_DEFAULT       0
#define CU_STREAM_LEGACY                    ((CUstream)1)
#define CU_STREAM_PER_THREAD                ((CUstream)2)

/* ---- functions ---- */

typedef CUresult(CUDAAPI *PFN_cuGetProcAddress_v12000)(const char *symbol, void **function, int version,
	cuuint64_t flags, CUdriverProcAddressQueryResult *found);
typedef CUresult(CUDAAPI *PFN_cuDriverGetVersion_v2020)(int *version);
typedef CUresult(CUDAAPI *PFN_cuInit_v2000)(unsigned int flags);
typedef CUresult(CUDAAPI *PFN_cuGetErrorName_v6000)(CUresult result, const char **name);
typedef CUresult(CUDAAPI *PFN_cuDeviceGetCount_v2000)(int *count);
typedef CUresult(CUDAAPI *PFN_cuDeviceGetName_v2000)(char *name, int len, CUdevice device);
typedef CUresult(CUDAAPI *PFN_cuDeviceGetUuid_v11040)(CUuuid *uuid, CUdevice device);
typedef CUresult(CUDAAPI *PFN_cuDeviceTotalMem_v3020)(size_t *bytes, CUdevice device);
typedef CUresult(CUDAAPI *PFN_cuDeviceGetAttribute_v2000)(int *value, CUdevice_attribute attribute, CUdevice device);
typedef CUresult(CUDAAPI *PFN_cuDevicePrimaryCtxRetain_v7000)(CUcontext *context, CUdevice device);
typedef CUresult(CUDAAPI *PFN_cuDevicePrimaryCtxGetState_v7000)(CUdevice device, unsigned int *flags, int *active);
typedef CUresult(CUDAAPI *PFN_cuCtxGetCurrent_v4000)(CUcontext *context);
typedef CUresult(CUDAAPI *PFN_cuCtxSetCurrent_v4000)(CUcontext context);
typedef CUresult(CUDAAPI *PFN_cuCtxPushCurrent_v4000)(CUcontext context);
typedef CUresult(CUDAAPI *PFN_cuCtxPopCurrent_v4000)(CUcontext *context);
typedef CUresult(CUDAAPI *PFN_cuCtxGetDevice_v2000)(CUdevice *device);
typedef CUresult(CUDAAPI *PFN_cuCtxGetId_v12000)(CUcontext context, unsigned long long *id);
typedef CUresult(CUDAAPI *PFN_cuThreadExchangeStreamCaptureMode_v10010)(CUstreamCaptureMode *mode);
typedef CUresult(CUDAAPI *PFN_cuMemAlloc_v3020)(CUdeviceptr *ptr, size_t size);
typedef CUresult(CUDAAPI *PFN_cuMemFree_v3020)(CUdeviceptr ptr);
typedef CUresult(CUDAAPI *PFN_cuMemGetInfo_v3020)(size_t *available, size_t *total);
typedef CUresult(CUDAAPI *PFN_cuMemCreate_v10020)(CUmemGenericAllocationHandle *handle, size_t size,
						  const CUmemAllocationProp *prop, unsigned long long flags);
typedef CUresult(CUDAAPI *PFN_cuMemRelease_v10020)(CUmemGenericAllocationHandle handle);
typedef CUresult(CUDAAPI *PFN_cuMemExportToShareableHandle_v10020)(void *shareable, CUmemGenericAllocationHandle handle,
								   CUmemAllocationHandleType type,
								   unsigned long long flags);
typedef CUresult(CUDAAPI *PFN_cuMemImportFromShareableHandle_v10020)(CUmemGenericAllocationHandle *handle,
								     void *shareable, CUmemAllocationHandleType type);
typedef CUresult(CUDAAPI *PFN_cuMemAddressReserve_v10020)(CUdeviceptr *ptr, size_t size, size_t alignment,
							  CUdeviceptr address, unsigned long long flags);
typedef CUresult(CUDAAPI *PFN_cuMemAddressFree_v10020)(CUdeviceptr ptr, size_t size);
typedef CUresult(CUDAAPI *PFN_cuMemMap_v10020)(CUdeviceptr ptr, size_t size, size_t offset,
					       CUmemGenericAllocationHandle handle, unsigned long long flags);
typedef CUresult(CUDAAPI *PFN_cuMemUnmap_v10020)(CUdeviceptr ptr, size_t size);
typedef CUresult(CUDAAPI *PFN_cuMemSetAccess_v10020)(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *access,
						     size_t count);
typedef CUresult(CUDAAPI *PFN_cuMemRetainAllocationHandle_v11000)(CUmemGenericAllocationHandle *handle, void *ptr);
typedef CUresult(CUDAAPI *PFN_cuMemsetD8Async_v3020)(CUdeviceptr dst, unsigned char value, size_t count,
	CUstream stream);
typedef CUresult(CUDAAPI *PFN_cuMemcpyAsync_v4000)(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream);
typedef CUresult(CUDAAPI *PFN_cuMemHostRegister_v6050)(void *ptr, size_t size, unsigned int flags);
typedef CUresult(CUDAAPI *PFN_cuMemHostUnregister_v4000)(void *ptr);
typedef CUresult(CUDAAPI *PFN_cuIpcGetMemHandle_v4010)(CUipcMemHandle *handle, CUdeviceptr ptr);
typedef CUresult(CUDAAPI *PFN_cuIpcOpenMemHandle_v11000)(CUdeviceptr *ptr, CUipcMemHandle handle, unsigned int flags);
typedef CUresult(CUDAAPI *PFN_cuIpcCloseMemHandle_v4010)(CUdeviceptr ptr);
typedef CUresult(CUDAAPI *PFN_cuStreamCreate_v2000)(CUstream *stream, unsigned int flags);
typedef CUresult(CUDAAPI *PFN_cuStreamCreateWithPriority_v5050)(CUstream *stream, unsigned int flags, int priority);
typedef CUresult(CUDAAPI *PFN_cuStreamDestroy_v4000)(CUstream stream);
typedef CUresult(CUDAAPI *PFN_cuStreamSynchronize_v2000)(CUstream stream);
typedef CUresult(CUDAAPI *PFN_cuStreamIsCapturing_v10000)(CUstream stream, CUstreamCaptureStatus *status);
typedef CUresult(CUDAAPI *PFN_cuStreamGetCtx_v9020)(CUstream stream, CUcontext *context);
typedef CUresult(CUDAAPI *PFN_cuStreamGetId_v12000)(CUstream stream, unsigned long long *id);
typedef CUresult(CUDAAPI *PFN_cuStreamWriteValue64_v11070)(CUstream stream, CUdeviceptr address,
	cuuint64_t value, unsigned int flags);
typedef CUresult(CUDAAPI *PFN_cuStreamWaitValue64_v11070)(CUstream stream, CUdeviceptr address,
	cuuint64_t value, unsigned int flags);
typedef CUresult(CUDAAPI *PFN_cuStreamBatchMemOp_v11070)(CUstream stream, unsigned int count,
	CUstreamBatchMemOpParams *operations, unsigned int flags);
typedef CUresult(CUDAAPI *PFN_cuStreamWaitEvent_v3020)(CUstream stream, CUevent event, unsigned int flags);
typedef CUresult(CUDAAPI *PFN_cuEventCreate_v2000)(CUevent *event, unsigned int flags);
typedef CUresult(CUDAAPI *PFN_cuEventRecord_v2000)(CUevent event, CUstream stream);
typedef CUresult(CUDAAPI *PFN_cuEventQuery_v2000)(CUevent event);
typedef CUresult(CUDAAPI *PFN_cuEventSynchronize_v2000)(CUevent event);
typedef CUresult(CUDAAPI *PFN_cuEventDestroy_v4000)(CUevent event);
typedef CUresult(CUDAAPI *PFN_cuLibraryLoadFromFile_v12000)(CUlibrary *library, const char *path,
	CUjit_option *jit, void **jit_values, unsigned int jit_count, CUlibraryOption *options, void **values,
	unsigned int count);
typedef CUresult(CUDAAPI *PFN_cuLibraryUnload_v12000)(CUlibrary library);
typedef CUresult(CUDAAPI *PFN_cuLibraryGetKernel_v12000)(CUkernel *kernel, CUlibrary library, const char *name);
typedef CUresult(CUDAAPI *PFN_cuLibraryGetModule_v12000)(CUmodule *module, CUlibrary library);
typedef CUresult(CUDAAPI *PFN_cuLibraryGetManaged_v12000)(CUdeviceptr *ptr, size_t *bytes, CUlibrary library,
	const char *name);
typedef CUresult(CUDAAPI *PFN_cuKernelGetFunction_v12000)(CUfunction *function, CUkernel kernel);
typedef CUresult(CUDAAPI *PFN_cuKernelSetAttribute_v12000)(CUfunction_attribute attribute, int value,
	CUkernel kernel, CUdevice device);
typedef CUresult(CUDAAPI *PFN_cuLaunchKernel_v4000)(CUfunction function, unsigned int grid_x,
	unsigned int grid_y, unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,
	unsigned int shared, CUstream stream, void **parameters, void **extra);

#endif

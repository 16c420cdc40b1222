/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpubroker-cuda.h - gpubroker.h for programs that use the CUDA runtime: streams typed, leases as arrays.
 *
 * This header is optional: gpubroker.h takes a cudaStream_t as void *, and a lease's ptr is a plain device pointer for
 * any kernel, library or cudaMemcpy. All functions are inline; C11 and C++11, host compiler or nvcc.
 *
 *     gpub::lease u;
 *     if (u.acquire(client, "u", GPUB_READ | GPUB_WRITE))
 *             return fail(gpub_strerror_last());
 *     step<<<grid, block, 0, stream>>>(u.as<float>());      // __global__ void step(gpub::span<float> u)
 *     u.return_on(stream);                                   // the GPU gives it back after step
 *
 * A return in stream order covers what was queued on that one stream before the call. Work on other streams must be
 * ordered before it (cudaStreamWaitEvent), as for cudaFreeAsync.
 */
#ifndef GPUBROKER_CUDA_H
#define GPUBROKER_CUDA_H

#include <cuda_runtime_api.h>

#include "gpubroker.h"

/* gpub_return_on(): gives the hold back after everything queued on stream so far. */
static inline int gpub_return_on_stream(gpub_lease *lease, cudaStream_t stream)
{
	return gpub_return_on(lease, (void *)stream);
}

/* gpub_signal_on(): sets the buffer's timeline after everything queued on stream so far. */
static inline int gpub_signal_on_stream(const gpub_lease *lease, uint64_t value, cudaStream_t stream)
{
	return gpub_signal_on(lease, value, (void *)stream);
}

/* gpub_wait_on(): everything queued on stream from now on waits until the timeline is at least value. */
static inline int gpub_wait_on_stream(const gpub_lease *lease, uint64_t value, cudaStream_t stream)
{
	return gpub_wait_on(lease, value, (void *)stream);
}

/* gpub_stream_create() with its type. It is a plain cudaStream_t: cudaStreamDestroy() ends it as well. */
static inline int gpub_cuda_stream_create(gpub_client *client, int device, cudaStream_t *stream)
{
	void *made;
	int   rc = gpub_stream_create(client, device, &made);

	if (!rc)
		*stream = (cudaStream_t)made;
	return rc;
}

#ifdef __cplusplus

#include <cassert>
#include <cstddef>
#include <type_traits>

#ifdef __CUDACC__
#define GPUB_BOTH __host__ __device__
#else
#define GPUB_BOTH
#endif

namespace gpub {

/*
 * A lease seen as an array of T: pointer and count, to pass to a kernel by value. It holds nothing and is valid as long
 * as the lease. Only device code may use its elements.
 */
template <typename T> class span {
public:
	GPUB_BOTH span() : data_(nullptr), size_(0) {}
	GPUB_BOTH span(T *data, std::size_t size) : data_(data), size_(size) {}

	GPUB_BOTH T *data() const { return data_; }
	GPUB_BOTH std::size_t size() const { return size_; }
	GPUB_BOTH T &operator[](std::size_t index) const { return data_[index]; }
	GPUB_BOTH T *begin() const { return data_; }
	GPUB_BOTH T *end() const { return data_ + size_; }

private:
	T          *data_;
	std::size_t size_;
};

/* A span of as many whole T as fit. T must be const, unless the lease has GPUB_WRITE. */
template <typename T> inline span<T> lease_as(const gpub_lease &lease)
{
	static_assert(std::is_trivially_copyable<T>::value, "memory that is shared holds plain bytes");
	assert(std::is_const<T>::value || (lease.rights & GPUB_WRITE));
	return span<T>(static_cast<T *>(lease.ptr), static_cast<std::size_t>(lease.size / sizeof(T)));
}

/*
 * A hold that gives itself back. It can be moved but not copied: one owner for one return. Its functions return what
 * the C functions of the same name return; it throws nothing.
 *
 * The destructor returns it in order on the stream that on() named, or with gpub_return() if none was named. A stream
 * that is being captured refuses a return: the hold then stays until gpub_disconnect(), which is safe but late. To
 * avoid that, or to see errors, return it yourself.
 */
class lease {
public:
	lease() : value_(), stream_(nullptr), held_(false), ordered_(false) {}
	lease(lease &&other) noexcept : value_(other.value_), stream_(other.stream_), held_(other.held_),
					ordered_(other.ordered_)
	{
		other.held_ = false;
	}
	lease &operator=(lease &&other) noexcept
	{
		if (this != &other) {
			give_back();
			value_ = other.value_;
			stream_ = other.stream_;
			ordered_ = other.ordered_;
			held_ = other.held_;
			other.held_ = false;
		}
		return *this;
	}
	lease(const lease &) = delete;
	lease &operator=(const lease &) = delete;
	~lease() { give_back(); }

	/* Gives back the lease that it holds first, as the destructor does. */
	int acquire(gpub_client *client, const char *name, unsigned rights, int timeout_ms = 0)
	{
		give_back();
		return took(gpub_acquire(client, name, rights, timeout_ms, &value_));
	}

	/* As acquire(), of a buffer that is as expected. */
	int acquire_as(gpub_client *client, const char *name, const gpub_expectation &expectation, unsigned rights,
		       int timeout_ms = 0)
	{
		give_back();
		return took(gpub_acquire_as(client, name, &expectation, rights, timeout_ms, &value_));
	}

	/* As acquire(), of the buffer that a ticket is for, with the rights that the ticket gives. */
	int redeem(gpub_client *client, const char *text)
	{
		give_back();
		return took(gpub_redeem(client, text, &value_));
	}

	/* Holds the same buffer again, after a return. */
	int renew() { return took(gpub_renew(&value_)); }

	/* Where the destructor returns it. */
	void on(cudaStream_t stream)
	{
		stream_ = stream;
		ordered_ = true;
	}

	int return_on(cudaStream_t stream) { return gave(gpub_return_on(&value_, (void *)stream)); }
	int return_now() { return gave(gpub_return(&value_)); }

	explicit operator bool() const { return held_; }
	const gpub_lease &get() const { return value_; }
	template <typename T> span<T> as() const { return lease_as<T>(value_); }

	/* The plain lease, which the caller must return. */
	gpub_lease release()
	{
		held_ = false;
		return value_;
	}

private:
	int took(int rc)
	{
		held_ = held_ || !rc;
		return rc;
	}
	int gave(int rc)
	{
		held_ = held_ && rc;
		return rc;
	}
	void give_back()
	{
		if (held_ && ordered_)
			(void)gpub_return_on(&value_, (void *)stream_);
		else if (held_)
			(void)gpub_return(&value_);
		held_ = false;
	}

	gpub_lease   value_;
	cudaStream_t stream_;
	bool         held_, ordered_;
};

} // namespace gpub

#undef GPUB_BOTH
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpubroker.hpp - gpubroker.h for C++: connections and leases that end by themselves, leases as arrays.
 *
 * This header is optional, and needs no CUDA: gpubroker-cuda.h includes it. All functions are inline. C++11; mdspan()
 * where the standard library has <mdspan>. Functions return what the C functions return, and throw nothing.
 *
 *     gpub::client client;                                   // before its leases: they end first
 *     gpub::lease  u;
 *     if (client.connect() || u.acquire(client.get(), "u", GPUB_READ | GPUB_WRITE))
 *             return fail(gpub_strerror_last());
 *
 * A stream is passed as a void *, as in gpubroker.h; a cudaStream_t can be passed.
 */
#ifndef GPUBROKER_HPP
#define GPUBROKER_HPP

#include <cassert>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#if defined __has_include
#if __has_include(<version>)
#include <version>
#endif
#endif
#ifdef __cpp_lib_mdspan
#include <array>
#include <mdspan>
#include <optional>
#endif

#include "gpubroker.h"

#ifdef __CUDACC__
#define GPUB_BOTH __host__ __device__
#else
#define GPUB_BOTH
#endif

namespace gpub {

/*
 * A connection, which the destructor ends. It can be moved but not copied. Its leases must end before the client does,
 * so declare them after the client.
 */
class client {
public:
	client() : value_(nullptr) {}
	client(client &&other) noexcept : value_(other.release()) {}
	client &operator=(client &&other) noexcept
	{
		if (this != &other) {
			disconnect();
			value_ = other.release();
		}
		return *this;
	}
	client(const client &) = delete;
	client &operator=(const client &) = delete;
	~client() { disconnect(); }

	/* As gpub_connect(). First ends a connection that this object has. After a failure it has no connection. */
	int connect(const char *address = nullptr)
	{
		disconnect();
		return gpub_connect(&value_, address);
	}
	void disconnect() { gpub_disconnect(release()); }

	explicit operator bool() const { return value_ != nullptr; }
	/* Returns the client for the functions of gpubroker.h; NULL: there is no connection. */
	gpub_client *get() const { return value_; }

	/* Returns the plain client, for the caller to disconnect. This object has no connection afterwards. */
	gpub_client *release()
	{
		gpub_client *value = value_;

		value_ = nullptr;
		return value;
	}

private:
	gpub_client *value_;
};

/*
 * A buffer as an array of T: pointer and number of elements, to pass to a kernel by value. A span holds no buffer, and
 * is valid as long as the lease that it is made from. Only device code may use its elements.
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

/* Returns a span of as many whole T as fit in the leased buffer. T must be const unless the lease has GPUB_WRITE. */
template <typename T> inline span<T> lease_as(const gpub_lease &lease)
{
	static_assert(std::is_trivially_copyable<T>::value, "memory that is shared holds plain bytes");
	assert(std::is_const<T>::value || (lease.rights & GPUB_WRITE));
	return span<T>(static_cast<T *>(lease.ptr), static_cast<std::size_t>(lease.size / sizeof(T)));
}

/*
 * gpub_layout.code and gpub_layout.bits of an element of type T: a number, bool or std::complex. Specialise `element`
 * for other types, such as __half, by deriving from element_of.
 */
template <unsigned Code, std::size_t Bytes> struct element_of {
	static constexpr std::uint8_t code = Code;
	static constexpr std::uint8_t bits = Bytes * 8;
};
template <typename T>
struct element : element_of<std::is_same<T, bool>::value        ? GPUB_BOOL :
			    std::is_floating_point<T>::value ? GPUB_FLOAT :
			    std::is_unsigned<T>::value       ? GPUB_UINT :
							       GPUB_INT,
			    sizeof(T)> {
	static_assert(std::is_arithmetic<T>::value, "specialise gpub::element for this type");
};
template <typename T> struct element<std::complex<T>> : element_of<GPUB_COMPLEX, 2 * sizeof(T)> {};

#ifdef __cpp_lib_mdspan
/*
 * Returns what gpub_acquire_as() must expect of a buffer that mdspan<T, Extents>() can show. A dynamic extent may be
 * any. The error message of gpub_acquire_as() says what another buffer is.
 */
template <typename T, typename Extents> inline gpub_expectation expect()
{
	using plain = element<std::remove_cv_t<T>>;
	gpub_expectation expectation = GPUB_EXPECTATION_INIT;
	gpub_layout     &layout = expectation.layout;

	static_assert(Extents::rank() <= GPUB_DIMS_MAX, "a layout has at most GPUB_DIMS_MAX dimensions");
	layout.code = plain::code;
	layout.bits = plain::bits;
	layout.lanes = 1;
	layout.ndim = Extents::rank();
	for (std::size_t i = 0; i < Extents::rank(); i++)
		layout.shape[i] =
			Extents::static_extent(i) == std::dynamic_extent ? GPUB_ANY_EXTENT : Extents::static_extent(i);
	return expectation;
}

/* Returns the extents of the layout; empty if it is not as expect() says, or index_type cannot count its elements. */
template <typename T, typename Extents> inline std::optional<Extents> layout_extents(const gpub_layout &layout)
{
	using index = typename Extents::index_type;
	const gpub_layout                    wanted = expect<T, Extents>().layout;
	const std::uint64_t                  most = std::numeric_limits<index>::max();
	std::uint64_t                        count = 1;
	std::array<index, Extents::rank()>   extents{};

	if (layout.code != wanted.code || layout.bits != wanted.bits || layout.lanes != 1 || layout.ndim != wanted.ndim)
		return std::nullopt;
	for (std::size_t i = 0; i < Extents::rank(); i++) {
		const std::uint64_t extent = layout.shape[i];

		if (extent > most || (wanted.shape[i] != GPUB_ANY_EXTENT && wanted.shape[i] != extent))
			return std::nullopt;
		if (extent && count > most / extent)
			return std::nullopt;
		count *= extent;
		extents[i] = static_cast<index>(extent);
	}
	return Extents(extents);
}
#endif

/*
 * A lease that its destructor returns. It can be moved but not copied, because a lease is returned once. The functions
 * return what the C functions of the same name return, and throw nothing.
 *
 * The destructor returns the lease in stream order on the stream that on() named, or with gpub_return() if none was
 * named. A stream that is being captured refuses the return, and the lease then stays held until gpub_disconnect(),
 * which is safe but late. To avoid that, or to see errors, return the lease yourself.
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

	/* As gpub_acquire(). First returns a lease that this object holds, as the destructor does. */
	int acquire(gpub_client *client, const char *name, unsigned rights, int timeout_ms = 0)
	{
		give_back();
		return took(gpub_acquire(client, name, rights, timeout_ms, &value_));
	}

	/* As acquire(), by gpub_acquire_as(): refuses a buffer that is not as expected. */
	int acquire_as(gpub_client *client, const char *name, const gpub_expectation &expectation, unsigned rights,
		       int timeout_ms = 0)
	{
		give_back();
		return took(gpub_acquire_as(client, name, &expectation, rights, timeout_ms, &value_));
	}

	/* As acquire(), by gpub_redeem(): of the buffer that the ticket `text` is for, with the ticket's rights. */
	int redeem(gpub_client *client, const char *text)
	{
		give_back();
		return took(gpub_redeem(client, text, &value_));
	}

	/* As gpub_renew(): holds the same buffer again, after a return. */
	int renew() { return took(gpub_renew(&value_)); }

	/* Sets the stream on which the destructor returns the lease. */
	void on(void *stream)
	{
		stream_ = stream;
		ordered_ = true;
	}

	int return_on(void *stream) { return gave(gpub_return_on(&value_, stream)); }
	int return_now() { return gave(gpub_return(&value_)); }

	explicit operator bool() const { return held_; }
	const gpub_lease &get() const { return value_; }
	template <typename T> span<T> as() const { return lease_as<T>(value_); }

#ifdef __cpp_lib_mdspan
	/*
	 * Returns the buffer as an array with the shape of its layout. Empty if the layout has another element type,
	 * rank or static extent, if T is not const and the lease has no GPUB_WRITE, or if no lease is held. Except on
	 * the host device, only device code may use the elements. The mdspan is valid as long as the lease.
	 */
	template <typename T, typename Extents> std::optional<std::mdspan<T, Extents>> mdspan() const
	{
		gpub_layout layout;

		if (!held_ || (!std::is_const_v<T> && !(value_.rights & GPUB_WRITE)) ||
		    gpub_lease_layout(&value_, &layout))
			return std::nullopt;
		if (std::optional<Extents> extents = layout_extents<T, Extents>(layout))
			return std::mdspan<T, Extents>(static_cast<T *>(value_.ptr), *extents);
		return std::nullopt;
	}
#endif

	/* Returns the plain lease, for the caller to return. This object holds no lease afterwards. */
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
			(void)gpub_return_on(&value_, stream_);
		else if (held_)
			(void)gpub_return(&value_);
		held_ = false;
	}

	gpub_lease   value_;
	void      *stream_;
	bool         held_, ordered_;
};

} // namespace gpub

#undef GPUB_BOTH

#endif

// SPDX-License-Identifier: Apache-2.0
// cpp.cc - gpubroker.hpp beside a real broker: who ends what, and which buffers are arrays of which type. cpp.sh
// compiles it for several standards and runs it with the buffers u=f32[2,3], b=bool[5], z=c64[4], long=u8[300] and
// raw=24.
#include "gpubroker.hpp"

#include <cerrno>
#include <complex>
#include <cstdio>
#include <cstring>
#include <utility>

namespace {

int points, failures;

void point(bool holds, const char *text)
{
	failures += !holds;
	std::printf("%sok %d - %s\n", holds ? "" : "not ", ++points, text);
	if (!holds)
		std::printf("# %s\n", gpub_strerror_last());
}

constexpr unsigned READ = GPUB_READ, BOTH = GPUB_READ | GPUB_WRITE;

void clients()
{
	gpub::client none, one;

	point(!none && !none.get(), "a client begins without a connection");
	point(one.connect("unix:/nonexistent") < 0 && !one, "and has none after a failure");
	point(!one.connect() && one && one.get(), "it connects");
	gpub_client *plain = one.get();
	gpub::client two(std::move(one));
	point(!one && two.get() == plain, "a move takes the connection along");
	none = std::move(two);
	point(!two && none.get() == plain, "so does an assignment");
	point(none.release() == plain && !none, "a released one is the caller's");
	gpub_disconnect(plain);
	point(!one.connect() && !one.connect() && one, "another connect ends the connection that was there");
	one.disconnect();
	point(!one, "it disconnects before its end");
}

// Whether somebody holds the buffer, whose name is gone afterwards; and whether it is freed, perhaps before anybody
// asks.
bool held(const gpub::client &client, const char *name)
{
	return gpub_drain(client.get(), name, 0) == -ETIMEDOUT;
}

bool freed(const gpub::client &client, const char *name)
{
	int error = gpub_drain(client.get(), name, 10000);

	return !error || error == -ENOENT;
}

void make(const gpub::client &client, const char *name)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = 64;
	spec.flags = GPUB_DEDICATED;
	(void)gpub_create(client.get(), name, &spec);
}

void leases(const gpub::client &client)
{
	gpub::lease lease;

	point(!lease, "a lease begins without a buffer");
	point(lease.acquire(client.get(), "none", READ) == -ENOENT && !lease, "and holds none after a failure");
	point(!lease.acquire(client.get(), "u", BOTH) && lease, "it acquires");
	gpub::span<float> u = lease.as<float>();
	point(u.size() >= 6 && u.data() == lease.get().ptr, "its memory is a span");
	for (int i = 0; i < 6; i++)
		u[i] = float(i);
	point(!lease.return_now() && !lease, "it returns");
	point(!lease.renew() && lease, "it holds the same buffer again");
	gpub::lease other(std::move(lease));
	point(!lease && other, "a move takes the buffer along");
	lease = std::move(other);
	point(lease && !other, "so does an assignment");
	gpub_lease plain = lease.release();
	point(!lease && !gpub_return(&plain), "a released one is the caller's");
}

void ends(const gpub::client &client)
{
	void *stream = nullptr;

	make(client, "scope");
	{
		gpub::lease lease;

		(void)lease.acquire(client.get(), "scope", BOTH);
		point(held(client, "scope"), "a lease keeps the buffer");
	}
	point(freed(client, "scope"), "and returns it at the end of its scope");
	make(client, "ordered");
	(void)gpub_stream_create(client.get(), GPUB_CURRENT, &stream);
	{
		gpub::lease lease;

		(void)lease.acquire(client.get(), "ordered", BOTH);
		lease.on(stream);
	}
	point(!gpub_stream_sync(stream) && freed(client, "ordered"), "in the order of a stream, if one was named");
	make(client, "next");
	make(client, "next.2");
	{
		gpub::lease lease;

		(void)lease.acquire(client.get(), "next", BOTH);
		(void)lease.acquire(client.get(), "next.2", BOTH);
		point(freed(client, "next") && held(client, "next.2"), "or when it acquires another");
	}
	gpub_stream_destroy(stream);
}

void elements()
{
	point(gpub::element<float>::code == GPUB_FLOAT && gpub::element<double>::bits == 64 &&
		      gpub::element<std::int16_t>::code == GPUB_INT && gpub::element<std::uint8_t>::code == GPUB_UINT &&
		      gpub::element<bool>::code == GPUB_BOOL && gpub::element<bool>::bits == 8 &&
		      gpub::element<std::complex<double>>::code == GPUB_COMPLEX &&
		      gpub::element<std::complex<double>>::bits == 128,
	      "types of C++ are element types of layouts");
}

#ifdef __cpp_lib_mdspan
using any = std::extents<std::size_t, std::dynamic_extent, std::dynamic_extent>;
using row = std::extents<std::size_t, std::dynamic_extent>;

void arrays(const gpub::client &client)
{
	gpub::lease lease;

	point(!lease.mdspan<float, any>(), "no buffer is no array");
	(void)lease.acquire(client.get(), "u", BOTH);
	auto u = lease.mdspan<float, any>();
	point(u && u->extent(0) == 2 && u->extent(1) == 3 && u->data_handle() == lease.get().ptr,
	      "a buffer is an array of its shape");
	point(u && u->data_handle()[1 * u->extent(1) + 2] == 5, "with what was written");
	point(bool(lease.mdspan<float, std::extents<int, 2, std::dynamic_extent>>()), "extents may be static");
	point(!lease.mdspan<float, std::extents<int, 3, std::dynamic_extent>>(), "then they are compared");
	point(!lease.mdspan<double, any>() && !lease.mdspan<int, any>(), "another element type is refused");
	point(!lease.mdspan<float, row>(), "so is another rank");
	(void)lease.acquire(client.get(), "u", READ);
	point(!lease.mdspan<float, any>(), "a lease that only reads is no array that can be written");
	point(bool(lease.mdspan<const float, any>()), "but one that can be read");
	(void)lease.acquire(client.get(), "b", READ);
	point(lease.mdspan<const bool, row>() && !lease.mdspan<const unsigned char, row>(),
	      "bool is a type of its own");
	(void)lease.acquire(client.get(), "z", READ);
	point(bool(lease.mdspan<const std::complex<float>, row>()), "complex numbers are, too");
	(void)lease.acquire(client.get(), "long", READ);
	point(lease.mdspan<const unsigned char, row>() &&
		      !lease.mdspan<const unsigned char, std::extents<signed char, std::dynamic_extent>>(),
	      "an index type that cannot count the elements is refused");
	(void)lease.acquire(client.get(), "raw", READ);
	point(!lease.mdspan<const unsigned char, row>(), "bytes without a layout are no array");
	(void)lease.return_now();
	point(!lease.mdspan<const unsigned char, row>(), "nor is a buffer that was returned");
	point(!lease.acquire_as(client.get(), "u", gpub::expect<float, any>(), READ),
	      "what an array expects, an acquire can");
	(void)lease.return_now();
	point(lease.acquire_as(client.get(), "u", gpub::expect<double, std::extents<int, 2, 4>>(), READ) < 0 &&
		      std::strstr(gpub_strerror_last(), "float64[2,4]"),
	      "and its message says both");
}
#else
void arrays(const gpub::client &) {}
#endif

} // namespace

int main()
{
	gpub::client client;

	clients();
	elements();
	if (client.connect())
		return std::printf("Bail out! %s\n", gpub_strerror_last()), 1;
	leases(client);
	ends(client);
	arrays(client);
	client.disconnect();
	std::printf("1..%d\n", points);
	return failures != 0;
}

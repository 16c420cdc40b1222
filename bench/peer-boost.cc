/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer-boost.cc - Boost.Interprocess: find() of a named object in a managed_shared_memory, under the segment's own
 * mutex, and an atomic count up and down.
 */
#include <atomic>
#include <cstring>
#include <string>

#include <boost/interprocess/managed_shared_memory.hpp>

extern "C" {
#include "bench.h"
}
#include "clients.h"
#include "peer.h"

namespace ip = boost::interprocess;

static ip::managed_shared_memory *segment;

static std::string segment_of(const char *folder)
{
	return strrchr(folder, '/') + 1 + std::string("-boost");
}

static std::string made;

static void make(const char *folder)
{
	char name[CLIENTS_NAME];

	made = segment_of(folder);
	ip::managed_shared_memory all(ip::create_only, made.c_str(), 4 << 20);
	for (unsigned i = 0; i < PEER_NAMES; i++) {
		clients_name(name, i);
		all.construct<std::atomic<unsigned>>(name)(0);
	}
}

static void open_segment(const char *folder)
{
	segment = new ip::managed_shared_memory(ip::open_only, segment_of(folder).c_str());
}

static void round_trip(const char *name)
{
	std::atomic<unsigned> *count = segment->find<std::atomic<unsigned>>(name).first;

	if (!count)
		bench_fail("boost: a name is lost");
	++*count;
	--*count;
}

static void remove_segment()
{
	ip::shared_memory_object::remove(made.c_str());
}

int main()
{
	static const struct peer peer = { "boost", make, open_segment, round_trip, remove_segment, 1000 };

	return peer_main(&peer);
}

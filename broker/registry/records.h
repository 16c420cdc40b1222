/* SPDX-License-Identifier: Apache-2.0 */
/*
 * records.h - what the ledger notes of buffers, mappings, grants and timelines: plain data, which registry.c,
 * mappings.c and timeline.c fill in, and make objects of.
 *
 * A record names other objects by numbers that are never reused, so that a record whose object is gone names nothing.
 * Counts and lists that follow from other records are not noted. Fields are only added, at the end (ledger_copy()).
 * Owns nothing.
 */
#ifndef GPUB_REGISTRY_RECORDS_H
#define GPUB_REGISTRY_RECORDS_H

#include <stdint.h>

#include "common/name.h"
#include "gpubroker.h"

struct buffer_record {
	uint64_t    first;      /* first serial of the buffer, by which other records name it */
	uint64_t    serial;
	uint64_t    allocation; /* serial */
	uint64_t    size, offset, reserve;
	uint64_t    creator;    /* id of the session that created it; 0: the broker did */
	uint64_t    created;    /* in seconds since 1970 */
	uint32_t    place;
	uint32_t    state;      /* enum buffer_state */
	uint32_t    owner, owner_changes, group, mode, flags;
	uint32_t    ephemeral;  /* 1: it loses its name when its creator ends */
	gpub_layout layout;     /* all zeros: it has none */
	char        name[NAME_SIZE];
};

struct mapping_record {
	uint64_t id;
	uint64_t session;    /* id */
	uint64_t allocation; /* serial */
	uint64_t bytes;
	uint32_t device;
	uint32_t place;
	uint8_t  shared, orphaned;
	uint8_t  unused[6];
};

struct grant_record {
	uint64_t mapping; /* id */
	uint64_t buffer;  /* buffer_record.first */
	uint64_t key;     /* grant_key.serial */
	uint32_t rights;
	uint32_t unused;
};

struct timeline_record {
	uint64_t buffer;   /* buffer_record.first, under which the page's descriptor is kept */
	uint64_t writer;   /* id of the session; 0: no session has claimed it */
	uint64_t mark;     /* 0: it has not ended */
	uint64_t last;     /* its last value, if it has ended */
	uint64_t ended_ms;
	uint32_t pid, rank, uid; /* of the writer */
	uint32_t unused;
};

#endif

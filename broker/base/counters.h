/* SPDX-License-Identifier: Apache-2.0 */
/*
 * counters.h - the counters of a broker, which only grow, from 0 at its start: one table, whose keys are those of the
 * status file, --json and the man page. Rows are only added; a key's meaning never changes. Owns nothing.
 */
#ifndef GPUB_COUNTERS_H
#define GPUB_COUNTERS_H

#include <stdint.h>

#define COUNTERS(X)                                                                         \
	X(buffers_created, "buffers that became live")                                      \
	X(buffers_unlinked, "buffers that were unlinked")                                   \
	X(allocations_made, "device allocations made")                                      \
	X(allocations_freed, "device allocations freed")                                    \
	X(bytes_made, "bytes of the allocations made")                                      \
	X(bytes_freed, "bytes of the allocations freed")                                    \
	X(mappings_opened, "mappings given, each with a sealed handle")                       \
	X(mappings_closed, "mappings ended by their session's own CLOSED")                    \
	X(mappings_died, "mappings ended by their session's death")                           \
	X(mappings_held, "CLOSED from a process not trusted: orphaned until its death")     \
	X(sessions_opened, "sessions that began")                                           \
	X(sessions_left, "sessions that ended without a mapping")                             \
	X(sessions_died, "sessions that died holding mappings")                               \
	X(sessions_cut, "sessions cut off: broke the protocol or did not read")             \
	X(sessions_refused, "connections refused before they became a session")             \
	X(refused_no_name, "requests for a name that does not exist (ENOENT)")              \
	X(refused_timeout, "requests that timed out (ETIMEDOUT)")                           \
	X(refused_exists, "creates of a taken name (EEXIST)")                               \
	X(refused_access, "requests that mode bits or ownership refused (EACCES)")          \
	X(refused_memory, "creates for which a device had no memory (ENOMEM)")              \
	X(refused_quota, "requests over a quota (EDQUOT)")                                  \
	X(refused_ticket, "tickets refused (EKEYREJECTED, EKEYEXPIRED, ESTALE)")            \
	X(tickets_issued, "tickets issued")                                                 \
	X(tickets_redeemed, "tickets redeemed")                                             \
	X(tickets_forged, "tickets refused: forged, or changed")                            \
	X(tickets_foreign, "tickets refused: another broker's, or another user's")          \
	X(tickets_expired, "tickets refused: expired")                                      \
	X(tickets_stale, "tickets refused: their buffer was unlinked")                      \
	X(tickets_used, "tickets refused: one-time, and redeemed before")                   \
	X(refused_other, "requests refused for another reason")                             \
	X(closed_foreign, "CLOSED for a mapping that its sender does not have")               \
	X(acquires_answered, "acquires answered with a buffer, with or without a new mapping")  \
	X(grants_quiesced, "grants ended by QUIESCED, while the session keeps the mapping") \
	X(quiesced_foreign, "QUIESCED for a buffer not in use, or from a process not trusted")  \
	X(ranges_cleaned, "ranges zeroed for another buffer of their owner")                \
	X(buffers_recycled, "buffers that took mapped or pooled memory")                    \
	X(notices_sent, "notices sent to holders of an unlinked buffer")                    \
	X(timelines_died, "timelines ended because their writer died")                      \
	X(timelines_marked, "end marks of timelines written again over a late signal")

struct counters {
#define COUNTER_FIELD(name, text) uint64_t name;
	COUNTERS(COUNTER_FIELD)
#undef COUNTER_FIELD
};

#endif

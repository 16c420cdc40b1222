/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crash-point.h - named places in library, broker and owner at which a test has a client die, stop or end, or the owner
 * die.
 *
 * CRASH_POINT(NAME) marks a crash point. In a build without --enable-crash-points the macro only checks that NAME is in
 * the table below. In a build with --enable-crash-points, environment variables say what happens at which crash point
 * (the programs of tests/crash set them):
 *
 *   GPUB_CRASH=NAME:NTH:ACTION[:PID[:TARGET]]   the NTH passing of crash point NAME (1 is the first) does ACTION
 *   GPUB_CRASH=@FILE                   FILE holds such orders, one a line, and is read at each crash point, so that a
 *                                      running broker and its owners can be given others. The first line that does not
 *                                      begin with CRASH_DONE is in force. Before its action, the line's first byte is
 *                                      overwritten with CRASH_DONE: an order is carried out once, whatever process
 *                                      passes the point later
 *   GPUB_CRASH_VISITED=FILE            each passing of any crash point appends "PID NAME" to FILE, which
 *                                      must exist; PID is 0 where the broker serves no client, and in the owner
 *
 * ACTION is kill (SIGKILL), abort (SIGABRT), stop (SIGSTOP), hang (the thread that passes the point does nothing more)
 * or exit (_exit(CRASH_EXIT)). A LIBRARY, OWNER or NEXT point acts on its own process, in the thread that passes the
 * point. A BROKER or LOOP point acts on process TARGET (by default PID; -1: itself), where exit means kill, and waits
 * until TARGET is dead or stopped (at most some seconds), so that the broker's next step finds TARGET dead or stopped.
 * Only passings while the broker serves PID (CRASH_POINT_PEER) are counted at a BROKER point; all passings are counted
 * at a LOOP point, where the broker serves no client, or which the keeper passes. Passings are counted in each process.
 * A process at a crash point has FILE locked (flock(2)), but not while it hangs. Owns the counts.
 */
#ifndef GPUB_CRASH_POINT_H
#define GPUB_CRASH_POINT_H

#include <sys/types.h>

#define CRASH_EXIT 66
#define CRASH_DONE '#'

/* Rows: side, name, and the state of things at the point. Roughly in the order in which a client passes the points. */
#define CRASH_POINTS(X)                                                                    \
	X(LIBRARY, connect_begin, "gpub_connect has a client structure and no socket")     \
	X(LIBRARY, connected, "the socket is connected")                                   \
	X(LIBRARY, challenged, "the broker's challenge is read")                           \
	X(LIBRARY, hello_sent, "the greeting is sent")                                     \
	X(LIBRARY, welcomed, "the welcome is read, with the key and the board")            \
	X(LIBRARY, board_mapped, "the board is mapped")                                    \
	X(LIBRARY, device_started, "the device is started")                                \
	X(LIBRARY, service_started, "the service thread runs")                             \
	X(LIBRARY, request_begin, "a round trip is listed and not sent")                   \
	X(LIBRARY, request_sent, "a round trip's request is sent")                         \
	X(LIBRARY, reply_received, "the service thread has a reply")                       \
	X(LIBRARY, refusal_received, "the service thread has a refusal")                   \
	X(LIBRARY, reply_taken, "the caller has its reply")                                \
	X(LIBRARY, create_begin, "a create is about to be asked for")                      \
	X(LIBRARY, create_short, "a create was refused for want of memory")                \
	X(LIBRARY, create_again, "the own cache is closed and the create asked for again") \
	X(LIBRARY, create_answered, "a create is answered")                                \
	X(LIBRARY, unlink_begin, "an unlink is about to be asked for")                     \
	X(LIBRARY, unlink_answered, "an unlink is answered")                               \
	X(LIBRARY, seal_begin, "a seal is about to be asked for")                          \
	X(LIBRARY, seal_answered, "a seal is answered, the records do not say so")         \
	X(LIBRARY, rename_begin, "a rename is about to be asked for")                      \
	X(LIBRARY, rename_answered, "a rename is answered")                                \
	X(LIBRARY, resize_begin, "a resize is about to be asked for")                      \
	X(LIBRARY, resize_answered, "a resize is answered")                                \
	X(LIBRARY, rights_begin, "more rights are about to be asked for")                  \
	X(LIBRARY, rights_answered, "more rights are answered, the record does not say so") \
	X(LIBRARY, acquire_requested, "the record is REQUESTED, nothing is sent")          \
	X(LIBRARY, acquire_joined, "a thread waits for another's request")                 \
	X(LIBRARY, acquire_answered, "the thread that sent ACQUIRE goes on")               \
	X(LIBRARY, grant_received, "the service thread has a GRANT")                       \
	X(LIBRARY, grant_prepared, "its record has slots, and its timeline's page")        \
	X(LIBRARY, handle_unsealed, "its handle is unsealed, and not opened")              \
	X(LIBRARY, mapping_opened, "the handle is opened, no record says so")              \
	X(LIBRARY, mapping_extended, "a chunk is mapped, no record says so")               \
	X(LIBRARY, mapping_shared, "the allocation is mapped already, no record says so")  \
	X(LIBRARY, mapping_recorded, "the record is OPEN")                                 \
	X(LIBRARY, open_failed, "the handle does not open, CLOSED is not sent")            \
	X(LIBRARY, open_refused, "CLOSED is sent for a handle that did not open")          \
	X(LIBRARY, notice_received, "the service thread has a NOTICE")                     \
	X(LIBRARY, notice_marked, "its record is marked")                                  \
	X(LIBRARY, hold_published, "a hold is published and not checked")                  \
	X(LIBRARY, hold_checked, "a hold is checked: the buffer is held")                  \
	X(LIBRARY, hold_undone, "a hold is taken back: the buffer is not live")            \
	X(LIBRARY, acquired, "the lease is filled in")                                     \
	X(LIBRARY, renewed, "a lease is renewed in its slot")                              \
	X(LIBRARY, return_begin, "a return is checked, the hold stands")                   \
	X(LIBRARY, returned, "the hold is gone")                                           \
	X(LIBRARY, return_claimed, "RETURNING: the write is not queued")                   \
	X(LIBRARY, return_queued, "the write is queued, the slot still RETURNING")         \
	X(LIBRARY, return_marked, "RETURNED: it lands with the stream")                    \
	X(LIBRARY, close_marked, "the record is CLOSING, its slots not looked at")         \
	X(LIBRARY, close_withdrawn, "a slot is busy: the record is OPEN again")            \
	X(LIBRARY, close_decided, "all slots are unused, the mapping stands")              \
	X(LIBRARY, mapping_closed, "the mapping is closed, CLOSED is not sent")            \
	X(LIBRARY, closed_sent, "CLOSED is sent, the record still CLOSING")                \
	X(LIBRARY, retire_synced, "the device is done with all that came before a retire") \
	X(LIBRARY, retire_decided, "the record is CLOSING, unused and quiesced")           \
	X(LIBRARY, quiesced_sent, "QUIESCED is sent, the record still CLOSING")            \
	X(LIBRARY, close_failed, "the mapping does not close")                             \
	X(LIBRARY, record_released, "the record is free")                                  \
	X(LIBRARY, closer_started, "the closer thread runs")                               \
	X(LIBRARY, closer_begins, "the closer is about to close what is due")              \
	X(LIBRARY, closer_done, "the closer has closed what it could")                     \
	X(LIBRARY, timeline_mapped, "a timeline's page is mapped for reading")             \
	X(LIBRARY, timeline_registered, "that page is registered with the device")         \
	X(LIBRARY, timeline_unregistered, "the device knows a timeline's page no more")    \
	X(LIBRARY, writer_begin, "the right to write a timeline is about to be asked for") \
	X(LIBRARY, writer_granted, "the writable page has come, unmapped")                 \
	X(LIBRARY, writer_mapped, "the writable page is mapped and registered")            \
	X(LIBRARY, signal_queued, "a signal is queued on a stream")                        \
	X(LIBRARY, wait_queued, "a wait is queued on a stream")                            \
	X(LIBRARY, fork_before, "a fork is about to be made, the library's locks taken")   \
	X(LIBRARY, fork_parent, "a fork is made: in the parent")                           \
	X(LIBRARY, fork_child, "a fork is made: in the child, all descriptors open")       \
	X(LIBRARY, fork_child_device, "in the child, the device's descriptors closed")     \
	X(LIBRARY, fork_child_done, "in the child, the socket closed as well")             \
	X(LIBRARY, disconnect_begin, "gpub_disconnect begins")                             \
	X(LIBRARY, holds_dropped, "all holds are taken back")                              \
	X(LIBRARY, closer_stopped, "the closer thread has ended")                          \
	X(LIBRARY, leave_begin, "all is closed, signals may be on their way")              \
	X(LIBRARY, signals_landed, "they have landed, LEAVE is not sent")                  \
	X(LIBRARY, left, "LEFT has come, the socket is open")                              \
	X(LIBRARY, socket_closed, "the socket is closed, the client not recycled")         \
	X(LIBRARY, disconnected, "gpub_disconnect is done")                                \
	X(LIBRARY, object_opened, "host device: the object is open, its lock not taken")   \
	X(LIBRARY, object_locked, "host device: its lock is taken, it is not mapped")      \
	X(LIBRARY, object_mapped, "host device: it is mapped, in no table")                \
	X(LIBRARY, object_closing, "host device: out of the table, still mapped")          \
	X(BROKER, accepted, "a connection is taken, its peer identified")                  \
	X(BROKER, challenge_sent, "the challenge is sent")                                 \
	X(BROKER, greeting_received, "the greeting is read, and not checked")              \
	X(BROKER, welcome_sent, "the welcome is sent, the session open")                   \
	X(BROKER, request_received, "a message is read, and not handled")                  \
	X(BROKER, refused, "a refusal is sent")                                            \
	X(BROKER, create_reserved, "name and quota are taken for a create")                \
	X(BROKER, create_submitted, "the device thread has the allocation to make")        \
	X(BROKER, create_waits, "a create waits for memory")                               \
	X(BROKER, create_retried, "a create that waits is tried again")                    \
	X(BROKER, create_made, "the allocation is made, nothing is booked")                \
	X(BROKER, create_live, "the buffer is live, nobody is told")                       \
	X(BROKER, create_done, "the creator is told")                                      \
	X(BROKER, unlinked, "a name is taken away, the caller not told")                   \
	X(BROKER, rights_added, "a use has more rights, the caller not told")              \
	X(BROKER, sealed, "a buffer is sealed, the caller not told")                       \
	X(BROKER, rename_replaced, "the replaced buffer has no name, the new one its old") \
	X(BROKER, renamed, "a buffer has its new name, the caller not told")               \
	X(BROKER, growth_zeroed, "a buffer is to grow, and what it has is zeroed")         \
	X(BROKER, growth_made, "a buffer is to grow, and its chunk has memory, or none")   \
	X(BROKER, resized, "a buffer has its new size, the caller not told")               \
	X(BROKER, acquire_waits, "an acquire waits for its name")                          \
	X(BROKER, acquire_woken, "its name has come, nothing is granted")                  \
	X(BROKER, grant_accounted, "grant and mapping are booked, the handle is not sealed")             \
	X(BROKER, handle_sealed, "its sealed handle stands in the board")                  \
	X(BROKER, memory_sent, "the descriptor of memory is sent, where it has one")       \
	X(BROKER, grant_sent, "GRANT is sent")                                             \
	X(BROKER, notice_sent, "a NOTICE is sent")                                         \
	X(BROKER, closed_received, "CLOSED is read, the mapping stands")                     \
	X(BROKER, closed_accounted, "its mapping is over")                                   \
	X(BROKER, quiesced_received, "QUIESCED is read, the use stands")                   \
	X(BROKER, quiesced_accounted, "its use is over")                                       \
	X(BROKER, writer_claimed, "a session may write a timeline, and has no page yet")   \
	X(BROKER, writer_sent, "it has the page")                                          \
	X(BROKER, leave_received, "LEAVE is read")                                         \
	X(BROKER, leave_sent, "LEFT is sent")                                              \
	X(BROKER, hung_up, "a socket hung up, the session stands")                         \
	X(BROKER, died, "a pidfd is readable, the session stands")                         \
	X(BROKER, session_ends, "a session ends, its mappings stand")                        \
	X(BROKER, session_ended, "its mappings, timelines and ephemeral buffers are over")   \
	X(LOOP, clean_submitted, "the device thread has a range to zero")                  \
	X(LOOP, clean_done, "it is zeroed, and not yet to be had")                         \
	X(LOOP, release_submitted, "the device thread has memory to free")                 \
	X(LOOP, release_done, "memory is freed, and still in the registry")                    \
	X(LOOP, released, "it is not in the registry")                                     \
	X(LOOP, timeline_ends, "a timeline is about to be ended")                          \
	X(LOOP, timeline_ended, "its end is published")                                    \
	X(LOOP, keeper_put, "the keeper has a descriptor, and not under its key yet")      \
	X(LOOP, keeper_kept, "it is under its key")                                        \
	X(LOOP, keeper_dropped, "the keeper has closed one")                               \
	X(LOOP, status_begin, "the status file is about to be written")                    \
	X(LOOP, status_written, "it is written")                                           \
	X(OWNER, owner_begins, "the owner's process runs, and has read nothing")           \
	X(OWNER, devices_started, "the devices have started, the broker is not told")      \
	X(OWNER, lane_started, "the thread of a lane runs, the broker is not told")        \
	X(OWNER, owner_answered, "an answer to the setup or to a lane is sent")            \
	X(OWNER, order_received, "an order is read, and not carried out")                  \
	X(OWNER, memory_made, "memory is allocated, and not zeroed")                       \
	X(OWNER, memory_zeroed, "new memory is zeroed, and has no handle")                 \
	X(OWNER, memory_adopted, "memory of the owner before is taken over")               \
	X(OWNER, range_zeroed, "a part of the memory is zeroed")                           \
	X(OWNER, memory_freed, "memory is freed, its number still known")                  \
	X(OWNER, order_done, "an order is carried out, and not answered")                  \
	X(OWNER, order_answered, "an order is answered")                                   \
	X(NEXT, takeover_begun, "a next broker has looked at what is kept")                \
	X(NEXT, takeover_joined, "it has joined the owner")                                \
	X(NEXT, takeover_loaded, "it has loaded the ledger of the one before it")          \
	X(NEXT, takeover_noted, "its own ledger has all, and does not count")              \
	X(NEXT, takeover_counts, "its own ledger counts")                                  \
	X(NEXT, takeover_owed, "the answers that were owed are sent")                      \
	X(NEXT, takeover_waits, "the requests that waited are handled again")              \
	X(NEXT, takeover_done, "the packet in hand is handled")

enum crash_point {
#define CRASH_POINT_ENUM(side, name, text) CRASH_##name,
	CRASH_POINTS(CRASH_POINT_ENUM)
#undef CRASH_POINT_ENUM
	CRASH_POINT_COUNT
};

#ifdef CRASH_POINTS_ENABLED

#define CRASH_POINT(name)     crash_point_pass(CRASH_##name)
#define CRASH_POINT_PEER(pid) crash_point_peer(pid)

#else

#define CRASH_POINT(name)     ((void)CRASH_##name)
#define CRASH_POINT_PEER(pid) ((void)(0 ? crash_point_peer(pid) : (void)0))

#endif

void crash_point_pass(enum crash_point point);

/* Sets the pid of the client process that the broker serves from now on. 0: none, or the process has ended. */
void crash_point_peer(pid_t pid);

#endif

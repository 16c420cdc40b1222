/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why-graph.h - the graph of which session waits for which, from the records of a status file, and its deadlocks:
 * circles of sessions that wait for each other.
 *
 * A node is the index of a session in the view SESSIONS. An edge from one session to another is a wait of the first
 * that cannot end before the second signals or closes. The order of everything is fixed, so equal records give equal
 * results. Work is limited by the number of records, whatever their contents. Owns its arrays; knows no processes;
 * prints nothing.
 */
#ifndef GPUB_SHOW_WHY_GRAPH_H
#define GPUB_SHOW_WHY_GRAPH_H

#include "views.h"

struct why_edge {
	uint32_t                   from, to; /* nodes */
	const union status_record *wait;     /* the wait: a TRACKED_WAIT or a TRACKED_REQUEST */
};

struct why_graph {
	const struct views        *views;
	struct why_edge           *edges; /* array, sorted by from; the edges of a node are in the order of its waits */
	size_t                     count, room; /* number of edges; entries that the array has memory for */
	size_t                    *first;  /* by node: index of its first edge; the entry after the last node: count */
	size_t                    *circle; /* indexes of all circles' edges: circle by circle, from the lowest node */
	size_t                     circle_edges; /* number of entries in circle */
	bool                      *open;   /* by node: the session may go on without the sessions that it waits for */
	size_t                    *on;     /* by node: for a node in a circle, the index of its edge in the circle */
	uint32_t                  *circle_of; /* by node: number of its circle, from 1; 0: none */
	uint32_t                   circles;   /* number of circles */
	const union status_record **creates;  /* array of the creates that wait, sorted by name */
	size_t                     creates_count;
	size_t                     budget; /* steps left for making edges of drains */
};

/* Makes edges and circles. Returns false if there is no memory; call why_graph_free() in either case. */
bool why_graph_make(struct why_graph *graph, const struct views *views, size_t records);
void why_graph_free(struct why_graph *graph);

/* ---- what a wait is for ---- */

/* Returns the timeline that a stream waits for. NULL: missing, or the wait is over: value reached, timeline ended. */
const struct status_timeline *why_awaited(const struct views *views, const struct status_wait *wait);

/*
 * Returns true if the wait at index wait - 1 of WAITS is of the same session, for the same timeline, and not over.
 * Its value is not larger, so this wait needs no explanation of its own.
 */
bool why_repeats(const struct views *views, size_t wait);

/* Returns a create of the name that waits for memory, or NULL. */
const union status_record *why_creator(const struct why_graph *graph, const char *name);

/*
 * The mappings that keep a buffer's memory: those with a grant of the buffer; or, if it has no grants, those on its
 * allocation. The range is one of the view GRANTS or OF_ALLOCATION.
 */
struct holders {
	const struct views *views;
	const struct view  *view;
	struct range        range;
};
struct holders why_holders(const struct views *views, const struct status_buffer *buffer);

/* Returns the mapping at index i, which is in holders->range, and sets *session to its session. */
const struct status_mapping *why_holder(const struct holders *holders, size_t i, const struct status_session **session);

/* Sets *node to the node of the session with this id. Returns false if there is no such session. */
bool why_node(const struct views *views, uint64_t session, uint32_t *node);

#endif

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
	uint32_t                   from, to; /* the node that waits, and the node that the first one waits for */
	const union status_record *wait;     /* record of the wait: a TRACKED_WAIT or a TRACKED_REQUEST */
};

struct why_graph {
	const struct views        *views;
	/* array, sorted by `from`; the edges of a node are in the order of its waits */
	struct why_edge           *edges;
	size_t                     count, room; /* number of edges; entries that the array has memory for */
	/* by node: index of its first edge in `edges`; the entry after the last node is `count` */
	size_t                    *first;
	/* indexes in `edges` of the edges of all circles: circle by circle, from the lowest node */
	size_t                    *circle;
	size_t                     circle_edges; /* number of entries in circle */
	/*
	 * by node: true if something else than the sessions that it waits for could end a wait, or not all waits are
	 * known
	 */
	bool                      *open;
	size_t                    *on;     /* by node: for a node in a circle, the index of its edge in the circle */
	uint32_t                  *circle_of; /* by node: number of the circle that the node is in, from 1; 0: none */
	uint32_t                   circles;   /* number of circles that were found */
	const union status_record **creates;  /* array of the creates that wait, sorted by name */
	size_t                     creates_count;
	size_t                     budget; /* number of steps that are left for making edges of drains */
};

/*
 * Makes the edges and circles. records: number of records in the views. Returns false if there is no memory; the caller
 * calls why_graph_free() in either case.
 */
bool why_graph_make(struct why_graph *graph, const struct views *views, size_t records);
void why_graph_free(struct why_graph *graph);

/* ---- what a wait is for ---- */

/*
 * Returns the timeline that a stream waits for. NULL: its record or its buffer's is missing, or the wait is over,
 * because the value is reached or the timeline has ended.
 */
const struct status_timeline *why_awaited(const struct views *views, const struct status_wait *wait);

/*
 * Returns true if the wait at the index wait - 1 of the view WAITS is of the same session and the same timeline as the
 * wait at the index `wait`, and not over. Its value is not larger, so the wait at `wait` needs no explanation of its
 * own.
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

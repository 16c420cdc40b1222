/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why-graph.h - which session waits for which other, from the records of a status file, and the circles in that.
 *
 * A node is a session, by its place among the sessions in the order of their numbers. An edge says that a wait of one cannot end
 * before another one does something: signals or closes. Everything is in a fixed order, so the same records give the same
 * answer. Bounded by the number of the records, whatever they say. Owns its arrays; knows no processes and says nothing.
 */
#ifndef GPUB_SHOW_WHY_GRAPH_H
#define GPUB_SHOW_WHY_GRAPH_H

#include "views.h"

struct why_edge {
	uint32_t                   from, to;
	const union status_record *wait; /* a TRACKED_WAIT or a TRACKED_REQUEST */
};

struct why_graph {
	const struct views        *views;
	struct why_edge           *edges; /* in the order of from; those of a node in the order of its waits */
	size_t                     count, room;
	size_t                    *first;  /* of each node; and of one behind the last */
	size_t                    *circle; /* edges of all circles, one circle after the other, each from its lowest node */
	size_t                     circle_edges;
	bool                      *open;   /* of each node: it may go on, by what it waits for or by what is not known of it */
	size_t                    *on;     /* of each node in a circle: the edge by which that goes on */
	uint32_t                  *circle_of; /* of each node: the number of its circle, from 1; 0: it is in none */
	uint32_t                   circles;
	const union status_record **creates; /* that wait, by name */
	size_t                     creates_count;
	size_t                     budget; /* steps that are left */
};

/* False: no memory; why_graph_free() is fine then, too. */
bool why_graph_make(struct why_graph *graph, const struct views *views, size_t records);
void why_graph_free(struct why_graph *graph);

/* ---- what a wait is for ---- */

/* The timeline that a stream's wait is for, where it is there and has neither reached the value nor ended. NULL: nothing waits. */
const struct status_timeline *why_awaited(const struct views *views, const struct status_wait *wait);

/* Whether the one before it waits for the same timeline, and so for less: that one is told. */
bool why_repeats(const struct views *views, size_t wait);

/* The create of that name that waits itself, or NULL. */
const union status_record *why_creator(const struct why_graph *graph, const char *name);

/* The grants that keep a buffer's memory, in the order of their numbers: of those who use it, or if nobody does, who map the memory. */
struct holders {
	const struct views *views;
	const struct view  *view;
	struct range        range;
};
struct holders why_holders(const struct views *views, const struct status_buffer *buffer);

/* The one at that place of the range, and its session. */
const struct status_grant *why_holder(const struct holders *holders, size_t i, const struct status_session **session);

/* The place of that session; false: there is none. */
bool why_node(const struct views *views, uint64_t session, uint32_t *node);

#endif

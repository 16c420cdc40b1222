/* SPDX-License-Identifier: Apache-2.0 */
/* why-graph.c - see why-graph.h */
#include "why-graph.h"

#include <stdlib.h>
#include <string.h>

/* ---- what a wait is for ---- */

bool why_node(const struct views *views, uint64_t session, uint32_t *node)
{
	size_t i = view_find(&views->view[SESSIONS], session);

	*node = (uint32_t)i;
	return view_has(&views->view[SESSIONS], i, session);
}

const struct status_timeline *why_awaited(const struct views *views, const struct status_wait *wait)
{
	const union status_record *timeline = view_one(&views->view[TIMELINES], wait->generation);

	if (!timeline || !view_one(&views->view[BUFFERS], wait->generation) ||
	    timeline->timeline.ended != STATUS_RUNS || timeline->timeline.value >= wait->value)
		return NULL;
	return &timeline->timeline;
}

bool why_repeats(const struct views *views, size_t wait)
{
	const union status_record *const *at = views->view[WAITS].at;

	return wait && at[wait - 1]->wait.session == at[wait]->wait.session &&
	       at[wait - 1]->wait.generation == at[wait]->wait.generation && why_awaited(views, &at[wait - 1]->wait);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp((*(const union status_record *const *)a)->request.name,
		      (*(const union status_record *const *)b)->request.name);
}

const union status_record *why_creator(const struct why_graph *graph, const char *name)
{
	union status_record key = { .request.kind = STATUS_CREATE };
	const union status_record *wanted = &key, **found = NULL;

	strncpy(key.request.name, name, sizeof key.request.name - 1);
	if (graph->creates_count)
		found = bsearch(&wanted, graph->creates, graph->creates_count, sizeof *graph->creates, compare_names);
	return found ? *found : NULL;
}

/* Both views have only mappings whose session exists (views.h), so why_holder() finds the session. */
struct holders why_holders(const struct views *views, const struct status_buffer *buffer)
{
	struct holders holders = { .views = views, .view = &views->view[GRANTS] };

	holders.range = view_range(holders.view, buffer->generation);
	if (holders.range.begin == holders.range.end) {
		holders.view = &views->view[OF_ALLOCATION];
		holders.range = view_range(holders.view, buffer->allocation);
	}
	return holders;
}

const struct status_mapping *why_holder(const struct holders *holders, size_t i, const struct status_session **session)
{
	const union status_record *record = holders->view->at[i];

	if (record->type == TRACKED_GRANT)
		record = views_mapping_of(holders->views, record);
	*session = &view_one(&holders->views->view[SESSIONS], record->mapping.session)->session;
	return &record->mapping;
}

/* ---- edges ---- */

struct adding {
	struct why_graph          *graph;
	uint32_t                   from;
	const union status_record *wait;
	bool                       failed; /* there was no memory for an edge */
};

static void edge_add(struct adding *adding, uint64_t session)
{
	struct why_graph *graph = adding->graph;
	size_t room = graph->room ? 2 * graph->room : 64;
	struct why_edge *edges;
	uint32_t to;

	if (!why_node(graph->views, session, &to) || to == adding->from)
		return;
	if (graph->count == graph->room) {
		edges = reallocarray(graph->edges, room, sizeof *edges);
		if (!edges) {
			adding->failed = true;
			return;
		}
		graph->edges = edges;
		graph->room = room;
	}
	graph->edges[graph->count++] = (struct why_edge){ adding->from, to, adding->wait };
}

static bool budget_take(struct adding *adding)
{
	if (!adding->graph->budget || adding->failed)
		return false;
	adding->graph->budget--;
	return true;
}

static void edges_of_drain(struct adding *adding, uint64_t generation)
{
	const union status_record *buffer = view_one(&adding->graph->views->view[BUFFERS], generation);
	const struct status_session *session;
	struct holders holders;

	if (!buffer || buffer->buffer.state < STATUS_DRAINING)
		return;
	holders = why_holders(adding->graph->views, &buffer->buffer);
	for (size_t i = holders.range.begin; i < holders.range.end && budget_take(adding); i++) {
		why_holder(&holders, i, &session);
		edge_add(adding, session->id);
	}
}

/*
 * Returns true if the session may wait for more than its records show: it made progress, has not answered INQUIRE or
 * not completely, or is not open. A session that was never asked has mapped no timeline, so its records show
 * everything.
 */
static bool says_too_little(const struct status_session *session)
{
	return session->partial || session->answer == STATUS_OWES_ANSWER || session->answer == STATUS_CANNOT_ANSWER ||
	       session->state != STATUS_OPEN;
}

/*
 * Adds an edge from a session whose stream waits to the session that writes the timeline. Returns false if the wait may
 * end without another known session. If the session is the timeline's own writer, adds no edge and returns true.
 */
static bool edge_of_wait(struct adding *adding, const struct status_wait *wait)
{
	const struct status_timeline *timeline = why_awaited(adding->graph->views, wait);
	size_t before = adding->graph->count;

	if (timeline)
		edge_add(adding, timeline->writer);
	return timeline && (adding->graph->count > before || timeline->writer == wait->session);
}

/*
 * Adds the edges of a request, and returns false if the request may end without another known session. Only a drain
 * without a timeout has edges: any process may end an acquire by creating the name, or a create by freeing memory,
 * and a request with a timeout ends by itself.
 */
static bool edges_of_request(struct adding *adding, const struct status_request *request)
{
	size_t before = adding->graph->count;

	if (request->kind != STATUS_DRAIN || request->timed)
		return false;
	edges_of_drain(adding, request->generation);
	return adding->graph->count > before && adding->graph->budget;
}

static bool edges_of_session(struct why_graph *graph, uint32_t node, uint64_t session)
{
	const struct view *waits = &graph->views->view[WAITS], *requests = &graph->views->view[REQUESTS];
	struct adding adding = { .graph = graph, .from = node };

	graph->open[node] = says_too_little(&graph->views->view[SESSIONS].at[node]->session);
	for (size_t i = view_find(waits, session); view_has(waits, i, session); i++) {
		adding.wait = waits->at[i];
		if (!why_repeats(graph->views, i))
			graph->open[node] |= !edge_of_wait(&adding, &waits->at[i]->wait);
	}
	for (size_t i = view_find(requests, session); view_has(requests, i, session); i++) {
		adding.wait = requests->at[i];
		graph->open[node] |= !edges_of_request(&adding, &requests->at[i]->request);
	}
	return !adding.failed;
}

static bool edges_make(struct why_graph *graph)
{
	const struct view *sessions = &graph->views->view[SESSIONS];
	bool made = true;

	for (size_t i = 0; i < sessions->count && made; i++) {
		graph->first[i] = graph->count;
		made = edges_of_session(graph, (uint32_t)i, sessions->at[i]->session.id);
	}
	graph->first[sessions->count] = graph->count;
	return made;
}

/* ---- circles ---- */

/*
 * State of the search for circles, which removes nodes until each node that is left has an edge from and to others that
 * are left.
 */
struct peeling {
	struct why_graph *graph;
	size_t            nodes;             /* number of all nodes */
	bool             *alive;             /* by node: true if the node is not removed */
	uint32_t         *out, *in;          /* by node: number of its edges to, and from, nodes that are not removed */
	size_t           *back, *back_first; /* edges sorted by `to`; by node: index in back of the first edge to it */
	uint32_t         *queue;             /* removed nodes whose edges are still counted in `out` and `in` */
	size_t            queued;
	uint32_t         *seen; /* by node: number of the latest walk of circle_find() that passed it */
};

static void node_drop(struct peeling *peeling, uint32_t node)
{
	if (!peeling->alive[node])
		return;
	peeling->alive[node] = false;
	peeling->queue[peeling->queued++] = node;
}

static void node_check(struct peeling *peeling, uint32_t node)
{
	if (!peeling->out[node] || !peeling->in[node])
		node_drop(peeling, node);
}

static void peel(struct peeling *peeling)
{
	const struct why_graph *graph = peeling->graph;

	while (peeling->queued) {
		uint32_t node = peeling->queue[--peeling->queued];

		for (size_t i = graph->first[node]; i < graph->first[node + 1]; i++) {
			peeling->in[graph->edges[i].to]--;
			node_check(peeling, graph->edges[i].to);
		}
		for (size_t i = peeling->back_first[node]; i < peeling->back_first[node + 1]; i++) {
			peeling->out[graph->edges[peeling->back[i]].from]--;
			node_check(peeling, graph->edges[peeling->back[i]].from);
		}
	}
}

/*
 * Returns the first edge of a node to a node that is alive. A node that is alive has one. Since nodes are only
 * removed, the result never moves back, and graph->on keeps it for the next call.
 */
static size_t edge_on(struct peeling *peeling, uint32_t node)
{
	size_t *i = &peeling->graph->on[node];

	while (!peeling->alive[peeling->graph->edges[*i].to])
		++*i;
	return *i;
}

/*
 * Follows edge_on() from the node until a node comes a second time. Returns this node, which is in a circle. walk:
 * number of this walk, which is noted for each node passed.
 */
static uint32_t circle_find(struct peeling *peeling, uint32_t node, uint32_t walk)
{
	while (peeling->seen[node] != walk) {
		peeling->seen[node] = walk;
		node = peeling->graph->edges[edge_on(peeling, node)].to;
	}
	return node;
}

/* Returns the lowest node of the circle that the node `start` is in. */
static uint32_t circle_lowest(struct peeling *peeling, uint32_t start)
{
	uint32_t node = start, lowest = start;

	do {
		node = peeling->graph->edges[edge_on(peeling, node)].to;
		if (node < lowest)
			lowest = node;
	} while (node != start);
	return lowest;
}

static void circle_take(struct peeling *peeling, uint32_t start)
{
	struct why_graph *graph = peeling->graph;
	uint32_t node = start;
	size_t from = graph->circle_edges;

	graph->circles++;
	do {
		size_t edge = edge_on(peeling, node);

		graph->circle[graph->circle_edges++] = edge;
		graph->circle_of[node] = graph->circles;
		node = graph->edges[edge].to;
	} while (node != start);
	for (size_t i = from; i < graph->circle_edges; i++)
		node_drop(peeling, graph->edges[graph->circle[i]].from);
	peel(peeling);
}

static void circles_take(struct peeling *peeling)
{
	uint32_t walk = 0;

	for (uint32_t node = 0; node < peeling->nodes; node++)
		while (peeling->alive[node])
			circle_take(peeling, circle_lowest(peeling, circle_find(peeling, node, ++walk)));
}

static void degrees_count(struct peeling *peeling)
{
	const struct why_graph *graph = peeling->graph;

	for (size_t i = 0; i < graph->count; i++) {
		peeling->out[graph->edges[i].from]++;
		peeling->in[graph->edges[i].to]++;
	}
	for (size_t i = 0; i < peeling->nodes; i++)
		peeling->alive[i] = true;
}

/* Fills back and back_first by a counting sort. Each node's part is filled from its end to its beginning. */
static void back_fill(struct peeling *peeling)
{
	const struct why_graph *graph = peeling->graph;
	size_t *first = peeling->back_first, end = 0;

	for (size_t i = 0; i < peeling->nodes; i++)
		first[i] = end += peeling->in[i];
	first[peeling->nodes] = end;
	for (size_t i = graph->count; i--;)
		peeling->back[--first[graph->edges[i].to]] = i;
}

/*
 * Removes the nodes that may make progress: nodes that are open or have no edges, and then all nodes with an edge to a
 * removed node. It is not known which of its waits a session's streams have reached, so a node is in a deadlock only if
 * every one of its waits leads to a node in the deadlock.
 */
static void drop_who_may_go_on(struct peeling *peeling)
{
	for (uint32_t node = 0; node < peeling->nodes; node++)
		if (!peeling->out[node] || peeling->graph->open[node])
			node_drop(peeling, node);
	for (size_t at = 0; at < peeling->queued; at++) {
		uint32_t node = peeling->queue[at];

		for (size_t i = peeling->back_first[node]; i < peeling->back_first[node + 1]; i++)
			node_drop(peeling, peeling->graph->edges[peeling->back[i]].from);
	}
	peel(peeling);
}

static void circles_find(struct peeling *peeling)
{
	degrees_count(peeling);
	back_fill(peeling);
	drop_who_may_go_on(peeling);
	memcpy(peeling->graph->on, peeling->graph->first, peeling->nodes * sizeof *peeling->graph->on);
	for (uint32_t node = 0; node < peeling->nodes; node++)
		node_check(peeling, node);
	peel(peeling);
	circles_take(peeling);
}

static bool circles_make(struct why_graph *graph, size_t nodes)
{
	struct peeling peeling = { .graph = graph,
				   .nodes = nodes,
				   .alive = calloc(nodes + 1, sizeof *peeling.alive),
				   .out = calloc(nodes + 1, sizeof *peeling.out),
				   .in = calloc(nodes + 1, sizeof *peeling.in),
				   .back = calloc(graph->count + 1, sizeof *peeling.back),
				   .back_first = calloc(nodes + 1, sizeof *peeling.back_first),
				   .queue = calloc(nodes + 1, sizeof *peeling.queue),
				   .seen = calloc(nodes + 1, sizeof *peeling.seen) };
	bool made = peeling.alive && peeling.out && peeling.in && peeling.back && peeling.back_first && peeling.queue &&
		    peeling.seen;

	if (made)
		circles_find(&peeling);
	free(peeling.alive);
	free(peeling.out);
	free(peeling.in);
	free(peeling.back);
	free(peeling.back_first);
	free(peeling.queue);
	free(peeling.seen);
	return made;
}

/* ---- all of it ---- */

static bool creates_make(struct why_graph *graph)
{
	const struct view *requests = &graph->views->view[REQUESTS];

	graph->creates = malloc((requests->count + 1) * sizeof *graph->creates);
	if (!graph->creates)
		return false;
	for (size_t i = 0; i < requests->count; i++)
		if (requests->at[i]->request.kind == STATUS_CREATE)
			graph->creates[graph->creates_count++] = requests->at[i];
	if (graph->creates_count)
		qsort(graph->creates, graph->creates_count, sizeof *graph->creates, compare_names);
	return true;
}

bool why_graph_make(struct why_graph *graph, const struct views *views, size_t records)
{
	size_t nodes = views->view[SESSIONS].count;

	*graph = (struct why_graph){ .views = views, .budget = 16 * records + 4096 };
	graph->first = calloc(nodes + 1, sizeof *graph->first);
	graph->circle = calloc(nodes + 1, sizeof *graph->circle);
	graph->circle_of = calloc(nodes + 1, sizeof *graph->circle_of);
	graph->open = calloc(nodes + 1, sizeof *graph->open);
	graph->on = calloc(nodes + 1, sizeof *graph->on);
	return graph->first && graph->open && graph->on && graph->circle && graph->circle_of && creates_make(graph) &&
	       edges_make(graph) && circles_make(graph, nodes);
}

void why_graph_free(struct why_graph *graph)
{
	free(graph->edges);
	free(graph->first);
	free(graph->open);
	free(graph->on);
	free(graph->circle);
	free(graph->circle_of);
	free(graph->creates);
}

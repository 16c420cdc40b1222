/* SPDX-License-Identifier: Apache-2.0 */
/* broker-text.c - see broker-text.h */
#include "broker-text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <utlist.h>

#include "broker/core/broker.h"
#include "broker/registry/mappings.h"
#include "broker/registry/timeline.h"

bool text_hides_chance;


static struct lines {
	char **at;
	size_t count, room;
} lines;

void row(const char *format, ...)
{
	va_list arguments;

	if (lines.count == lines.room) {
		lines.room = lines.room ? 2 * lines.room : 256;
		lines.at = reallocarray(lines.at, lines.room, sizeof *lines.at);
		assert_non_null(lines.at);
	}
	va_start(arguments, format);
	assert_true(vasprintf(&lines.at[lines.count++], format, arguments) >= 0);
	va_end(arguments);
}

static int compare(const void *one, const void *other)
{
	return strcmp(*(char *const *)one, *(char *const *)other);
}

char *text_take(void)
{
	size_t size = 1;
	char *text, *end;

	qsort(lines.at, lines.count, sizeof *lines.at, compare);
	for (size_t i = 0; i < lines.count; i++)
		size += strlen(lines.at[i]) + 1;
	text = end = malloc(size);
	assert_non_null(text);
	*end = 0;
	for (size_t i = 0; i < lines.count; i++) {
		end += sprintf(end, "%s\n", lines.at[i]);
		free(lines.at[i]);
	}
	lines.count = 0;
	return text;
}

#define N(value) ((unsigned long long)(value))

static void charge_line(const char *what, uint64_t number, const struct charge *charge)
{
	if (charge->account)
		row("charge of %s %llu: uid %u resource %d amount %llu", what, N(number), charge->account->uid,
		     charge->resource, N(charge->amount));
}

static void allocation_lines(const struct allocation *allocation)
{
	const struct allocation *chunk;
	uint64_t serial = allocation->serial;
	unsigned place = 0, orphaned = 0, open = 0;
	const struct mapping *mapping;

	DL_FOREACH(allocation->mappings, mapping) {
		open++;
		orphaned += mapping->orphaned;
	}
	row("allocation %llu state %d device %u span %llu size %llu reserved %llu memory %llu address %llu range %llu "
	     "mode %o exported %u owner %u group %u ranges %u vacant %u closed %d offered %d private %d reclaimed %d "
	     "ended %d releasing %d lost %u",
	     N(serial), allocation->state, allocation->device, N(allocation->span), N(allocation->size),
	     N(allocation->reserved), N(allocation->memory), N(allocation->address), N(allocation->slab.kind.range),
	     allocation->slab.kind.mode, allocation->slab.kind.exported, allocation->slab.kind.owner,
	     allocation->slab.kind.group, allocation->slab.ranges, allocation->slab.vacant, allocation->slab.closed,
	     allocation->slab.shelf != NULL, allocation->is_private, allocation->reclaimed, allocation->ended,
	     allocation->releasing && allocation->state != ALLOCATION_FREEING, allocation->lost);
	row("allocation %llu named %u grants %u open %u (%u) orphaned %u (%u) busy %u chunks %u job %d descriptor %d",
	     N(serial), allocation->named, allocation->grant_count, allocation->open, open, allocation->orphaned,
	     orphaned, allocation->busy, allocation->chunk_count, allocation->job != NULL, allocation->descriptor >= 0);
	for (uint32_t word = 0; allocation->slab.bits && word < (allocation->slab.ranges + 63) / 64; word++)
		row("allocation %llu vacant word %u: %llx", N(serial), word, N(allocation->slab.bits[word]));
	for (size_t i = 0; i < sizeof allocation->handle.bytes; i += 16)
		row("allocation %llu handle %zu: %02x%02x", N(serial), i, allocation->handle.bytes[i],
		     allocation->handle.bytes[i + 1]);
	DL_FOREACH2(allocation->chunks, chunk, chunk_next)
		row("allocation %llu chunk %u: %llu place %u of %llu", N(serial), place++, N(chunk->serial),
		     chunk->place, N(chunk->parent->serial));
	charge_line("bytes of allocation", serial, &allocation->charge);
	charge_line("descriptors of allocation", serial, &allocation->descriptors);
}

static void usage_lines(const struct usages *usages)
{
	const struct usage *usage;
	const struct spare *spare;

	for (unsigned device = 0; device < DEVICE_MAX; device++)
		if (usages->bytes[device][SPARE_IDLE] || usages->bytes[device][SPARE_POOLED])
			row("device %u idle %llu pooled %llu", device, N(usages->bytes[device][SPARE_IDLE]),
			     N(usages->bytes[device][SPARE_POOLED]));
	for (usage = usages->by_key; usage; usage = usage->hh.next) {
		row("usage %u of %u: holds %u made %llu", usage->key.device, usage->key.uid, usage->holds,
		     N(usage->made));
		for (unsigned kind = 0; kind < SPARE_KINDS; kind++) {
			unsigned place = 0;

			DL_FOREACH(usage->spares[kind], spare)
				row("spare %u of device %u of %u: %u is %llu, %llu bytes", kind, usage->key.device,
				     usage->key.uid, place++,
				     N(((struct allocation *)((char *)(uintptr_t)spare -
							      offsetof(struct allocation, spare)))->serial),
				     N(spare->bytes));
		}
	}
}

static void pool_lines(const struct broker *of)
{
	const struct allocation *allocation;

	row("pool: %u pooled, device 0: %u releases, %llu returning", of->pool->count, of->pool->device[0].releases,
	     N(of->pool->device[0].returning));
	DL_FOREACH(of->pool->leaving, allocation)
		row("leaves the pool: %llu memory %llu", N(allocation->serial), N(allocation->memory));
}

static void timeline_line(const struct timeline *timeline)
{
	row("timeline of %llu serial %llu writer %llu mark %llx value %llu checked %d pid %u rank %u uid %u how %llu",
	     N(timeline->buffer), N(timeline->serial), N(timeline->writer), N(timeline->mark),
	     N(text_hides_chance ? 0 : timeline_value(timeline)), timeline->marks != NULL,
	     timeline->shown.pid, timeline->shown.rank, timeline->shown.uid,
	     N(timeline->mark ? timeline->end->how : 0));
}

static void buffer_lines(const struct buffer *buffer)
{
	gpub_layout layout = buffer_layout(buffer);
	const struct grant *grant;

	row("buffer %llu serial %llu '%s' place %u state %d size %llu offset %llu reserve %llu in %llu owner %u (%u) "
	     "group %u mode %o flags %x created %llu creator %llu ephemeral %d layout %u/%u/%llu",
	     N(buffer->first), N(buffer->serial), buffer->name, text_hides_chance ? 0 : buffer->place, buffer->state,
	     N(buffer->size), N(buffer->offset), N(buffer->reserve), N(buffer->allocation->serial), buffer->owner,
	     buffer->owner_changes, buffer->group, buffer->mode, buffer->flags,
	     N(text_hides_chance ? 0 : buffer->created), N(buffer->creator),
	     buffer->ephemerals != NULL, layout.code, layout.ndim, N(layout.shape[0]));
	row("buffer %llu grants %u orphaned %u writers %u timeline %d tickets %d", N(buffer->first),
	     buffer->grant_count, buffer->orphaned, buffer->writers, buffer->timeline != NULL,
	     buffer->tickets != NULL);
	DL_FOREACH(buffer->grants, grant)
		row("grant of %llu under %llu key %llx rights %u entered %d", N(buffer->first), N(grant->mapping->id),
		     N(grant->key.serial), grant->rights, grant->hh.tbl != NULL);
	charge_line("buffer", buffer->first, &buffer->charge);
	charge_line("descriptors of buffer", buffer->first, &buffer->descriptors);
	if (buffer->timeline)
		timeline_line(buffer->timeline);
}

static void session_lines(const struct session *session)
{
	const struct mapping *mapping;
	const struct timeline *timeline;
	const struct buffer *buffer;

	row("session %llu state %d pid %d uid %u gid %u groups %u '%s' start %llu since %llu own %u revision %u "
	     "rank %u opened %d answers %d mps %d hung up %d orphaned %u grants %u bytes %llu",
	     N(session->id), session->state, session->pid, session->who.uid, session->who.gid,
	     session->who.group_count, session->command, N(session->start), N(session->since), session->own_pid,
	     session->revision, session->rank, session->opened, session->answers, session->proof.mps,
	     session->hung_up, session->mappings.orphaned, session->mappings.grant_count,
	     N(session->mappings.bytes));
	for (mapping = session->mappings.by_id; mapping; mapping = mapping->hh.next)
		row("mapping %llu of %llu of allocation %llu bytes %llu device %u place %u shared %d orphaned %d "
		     "uid %u grants %u siblings %u charged %d",
		     N(mapping->id), N(session->id), N(mapping->allocation->serial), N(mapping->bytes),
		     mapping->device, mapping->orphaned || text_hides_chance ? 0 : mapping->place, mapping->shared,
		     mapping->orphaned, mapping->uid, mapping->grant_count, mapping->siblings->count,
		     mapping->charge.account != NULL);
	DL_FOREACH2(session->timelines.written, timeline, written_next)
		row("session %llu writes %llu", N(session->id), N(timeline->buffer));
	DL_FOREACH2(session->ephemerals, buffer, ephemeral_next)
		row("session %llu has ephemeral %llu", N(session->id), N(buffer->first));
}

static void account_line(void *context, uid_t uid, const uint64_t amounts[RESOURCES])
{
	(void)context;
	for (unsigned i = 0; i < RESOURCES; i++)
		if (amounts[i] && i != RESOURCE_QUEUED && i != RESOURCE_GREETINGS &&
		    !(text_hides_chance && i == RESOURCE_DESCRIPTORS))
			row("uid %u has %llu of %s", uid, N(amounts[i]), resource_key((enum resource)i));
}

static void number_lines(const struct broker *of)
{
	const uint64_t *counter = (const uint64_t *)&of->counters;

	row("next: serial %llu mapping %llu allocation %llu session %llu", N(of->registry->next_serial),
	     N(of->registry->next_mapping), N(of->memory->next), N(of->sessions->next_id));
	row("%u buffers, %u mappings, %llu bytes, free: %u words, %u handles", of->registry->buffer_count,
	     of->registry->mapping_count, N(of->memory->bytes), of->registry->words.free, of->registry->handles.free);
	row("names %u serials %u", HASH_COUNT(of->registry->names), HASH_CNT(by_serial, of->registry->serials));
	for (size_t i = 0; i < sizeof of->counters / sizeof *counter; i++)
		if (&counter[i] != &of->counters.notices_sent) /* they are sent again */
			row("counter %zu: %llu", i, N(counter[i]));
	for (uint32_t i = 0; i < of->config->buffers; i++)
		if (of->registry->by_place[i])
			row("word %u: %llx", text_hides_chance ? 0 : i, N(of->board->board.words[i]));
}

char *broker_text(struct broker *of)
{
	const struct allocation *allocation;
	const struct buffer *buffer;
	const struct session *session;

	DL_FOREACH(of->memory->allocations, allocation)
		allocation_lines(allocation);
	for (buffer = of->registry->serials; buffer; buffer = buffer->by_serial.next)
		buffer_lines(buffer);
	for (session = of->sessions->by_id; session; session = session->hh.next)
		session_lines(session);
	usage_lines(&of->memory->usages);
	pool_lines(of);
	accounting_each(of->accounting, account_line, NULL);
	number_lines(of);
	return text_take();
}

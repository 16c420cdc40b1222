/* SPDX-License-Identifier: Apache-2.0 */
/* delegation.c - see delegation.h */
#include "delegation.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <utlist.h>

#include "broker.h"
#include "common/error.h"

/* A ticket that was issued to be redeemed once, and was not yet. */
struct once {
	uint8_t       id[16];
	uint64_t      expires_ms;
	struct charge charge;
	struct once  *prev, *next;
};

int delegation_init(struct delegation *delegation)
{
	delegation->key = sodium_malloc(TOKEN_KEY_SIZE);
	if (!delegation->key)
		return error_set(-ENOMEM, "the broker is out of memory");
	randombytes_buf(delegation->key, TOKEN_KEY_SIZE);
	return 0;
}

void delegation_deinit(struct delegation *delegation)
{
	sodium_free(delegation->key);
	delegation->key = NULL;
}

/* It goes on while the machine sleeps, and nobody can set it. */
static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static bool is_past(uint64_t expires_ms)
{
	return expires_ms && now_ms() >= expires_ms;
}

/* ---- those that are good once ---- */

static void once_drop(struct buffer *buffer, struct once *once, struct accounting *accounting)
{
	DL_DELETE(buffer->tickets, once);
	charge_release(&once->charge, accounting);
	free(once);
}

static void once_drop_expired(struct buffer *buffer, struct accounting *accounting)
{
	struct once *once, *next;

	DL_FOREACH_SAFE(buffer->tickets, once, next)
		if (is_past(once->expires_ms))
			once_drop(buffer, once, accounting);
}

/* Of all buffers of that user: what is past its term waits for nobody, and must not keep others from being issued. */
static void once_drop_expired_of(struct broker *broker, uid_t owner)
{
	struct buffer *buffer, *next;

	HASH_ITER(hh, broker->registry.names, buffer, next)
		if (buffer->owner == owner)
			once_drop_expired(buffer, &broker->accounting);
}

static int once_note(struct buffer *buffer, const struct token *token, struct accounting *accounting)
{
	struct once *once = calloc(1, sizeof *once);
	int error;

	if (!once)
		return error_set(-ENOMEM, "the broker is out of memory");
	error = charge_take(&once->charge, accounting, buffer->owner, RESOURCE_TICKETS, 1);
	if (error) {
		free(once);
		return error;
	}
	memcpy(once->id, token->id, sizeof once->id);
	once->expires_ms = token->expires_ms;
	DL_APPEND(buffer->tickets, once);
	return 0;
}

static struct once *once_find(const struct buffer *buffer, const struct token *token)
{
	struct once *once;

	DL_FOREACH(buffer->tickets, once)
		if (!memcmp(once->id, token->id, sizeof once->id))
			return once;
	return NULL;
}

void delegation_forget(struct buffer *buffer, struct accounting *accounting)
{
	while (buffer->tickets)
		once_drop(buffer, buffer->tickets, accounting);
}

/* ---- issuing ---- */

static int issue_check(const struct session *session, const struct wire_issue *issue, const struct buffer *buffer)
{
	if (session->who.uid != buffer->owner && !identity_is_admin(&session->who))
		return error_set(-EACCES, "only its owner (uid %u) or root may give tickets for '%s'", buffer->owner,
				 buffer->name);
	if (!issue->rights || issue->rights & ~(GPUB_READ | GPUB_WRITE) || issue->once > 1)
		return error_set(-EINVAL, "the ticket's rights are none or unknown: use GPUB_READ, GPUB_WRITE or both");
	if (issue->lifetime_ms > UINT64_MAX / 2)
		return error_set(-EINVAL, "the ticket's lifetime is out of range: 0 is as long as the buffer's");
	return 0;
}

/*
 * Who redeems it maps the whole allocation: another user only where nothing else is in it, nor ever will be. A ticket for
 * anybody may still be redeemed by its owner's processes where others are.
 */
static int issue_may_part(const struct wire_issue *issue, const struct buffer *buffer, bool *parts)
{
	int error = issue->uid == buffer->owner ? 0 : registry_may_part(buffer);

	*parts = issue->uid != buffer->owner && !error;
	return issue->uid == TOKEN_ANY_USER ? 0 : error;
}

int delegation_issue(struct session *session, const struct wire_issue *issue, struct token *token)
{
	struct broker *broker = session->broker;
	struct buffer *buffer = registry_find(&broker->registry, issue->name);
	struct token made = { .rights = (uint8_t)issue->rights, .uid = issue->uid, .once = (uint8_t)issue->once };
	bool parts;
	int error;

	if (!buffer || buffer->state != BUFFER_LIVE)
		return error_set(-ENOENT, "there is no buffer '%s' to give a ticket for", issue->name);
	error = issue_check(session, issue, buffer);
	if (error)
		return error;
	error = issue_may_part(issue, buffer, &parts);
	if (error)
		return error;
	memcpy(made.instance, broker->board.header->instance_id, sizeof made.instance);
	randombytes_buf(made.id, sizeof made.id);
	made.serial = buffer->serial;
	made.tenure = buffer->tenure;
	made.expires_ms = issue->lifetime_ms ? now_ms() + issue->lifetime_ms : 0;
	once_drop_expired(buffer, &broker->accounting);
	if (made.once)
		error = once_note(buffer, &made, &broker->accounting);
	if (error == -EDQUOT) {
		once_drop_expired_of(broker, buffer->owner);
		error = once_note(buffer, &made, &broker->accounting);
	}
	if (error)
		return error;
	if (parts)
		registry_part(&broker->registry, buffer);
	token_stamp(&made, broker->delegation.key);
	*token = made;
	broker->counters.tickets_issued++;
	return 0;
}

/* ---- redeeming ---- */

static int refuse(uint64_t *counter, int error, const char *text)
{
	(*counter)++;
	return error_set(error, "%s", text);
}

/* The stamp comes first: nothing else in a ticket is worth reading before it. */
static int check_stamp(struct broker *broker, const struct token *token)
{
	if (token_is_genuine(token, broker->delegation.key))
		return 0;
	if (memcmp(token->instance, broker->board.header->instance_id, sizeof token->instance))
		return refuse(&broker->counters.tickets_foreign, -EKEYREJECTED,
			      "another broker issued this ticket, or an earlier run of this one: ask for a new one");
	return refuse(&broker->counters.tickets_forged, -EKEYREJECTED,
		      "the ticket is not what this broker issued: copy it whole, or ask for a new one");
}

int delegation_check(struct session *session, const struct token *token, struct buffer **result)
{
	struct broker *broker = session->broker;
	struct counters *counters = &broker->counters;
	struct buffer *buffer;
	int error = check_stamp(broker, token);

	if (error)
		return error;
	if (token->uid != TOKEN_ANY_USER && token->uid != session->who.uid)
		return refuse(&counters->tickets_foreign, -EKEYREJECTED,
			      "the ticket is for another user: ask for one of your own");
	if (is_past(token->expires_ms))
		return refuse(&counters->tickets_expired, -EKEYEXPIRED, "the ticket has expired: ask for a new one");
	buffer = registry_find_serial(&broker->registry, token->serial);
	if (!buffer)
		return refuse(&counters->tickets_stale, -ESTALE,
			      "the ticket's buffer was unlinked: ask for one for the new buffer");
	if (token->tenure != buffer->tenure)
		return refuse(&counters->tickets_stale, -ESTALE,
			      "the ticket's buffer has another owner now: ask that one for a new ticket");
	if (token->once && !once_find(buffer, token))
		return refuse(&counters->tickets_used, -EKEYREJECTED,
			      "the ticket was good once and has been redeemed: ask for a new one");
	*result = buffer;
	return session->who.uid == buffer->owner ? 0 : registry_may_part(buffer);
}

void delegation_spend(struct session *session, const struct token *token, struct buffer *buffer)
{
	struct once *once = token->once ? once_find(buffer, token) : NULL;

	session->broker->counters.tickets_redeemed++;
	if (session->who.uid != buffer->owner)
		registry_part(&session->broker->registry, buffer);
	if (once)
		once_drop(buffer, once, &session->broker->accounting);
}

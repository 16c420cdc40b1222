/* SPDX-License-Identifier: Apache-2.0 */
/* wire.c - see wire.h */
#include "wire.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "error.h"

void wire_init(struct wire_message *message, enum wire_type type, uint64_t request)
{
	memset(message, 0, sizeof *message);
	message->magic = WIRE_MAGIC;
	message->version = WIRE_VERSION;
	message->type = (uint16_t)type;
	message->request = request;
}

void wire_refuse(struct wire_message *message, uint64_t request, int error, const char *text)
{
	wire_init(message, WIRE_REFUSED, request);
	message->refused.error = error;
	snprintf(message->refused.text, sizeof message->refused.text, "%s", text);
}

static bool ends(const char *text, size_t size)
{
	return memchr(text, 0, size) != NULL;
}

/* Every text ends, and every count is of what is there. */
static bool is_well_formed(const struct wire_message *message)
{
	switch (message->type) {
	case WIRE_CREATE:
	case WIRE_UNLINK:
	case WIRE_STAT:
	case WIRE_ACQUIRE:
	case WIRE_CHANGE:
	case WIRE_DRAIN:
	case WIRE_ISSUE:
	case WIRE_SEAL:
	case WIRE_NEWER:
	case WIRE_RESIZE:
		return ends(message->name.name, NAME_SIZE); /* each begins with its name */
	case WIRE_RENAME:
		return ends(message->rename.name, NAME_SIZE) && ends(message->rename.to, NAME_SIZE);
	case WIRE_REFUSED:
		return message->refused.error < 0 && ends(message->refused.text, WIRE_TEXT_SIZE);
	case WIRE_WAITS:
		return message->waits.count <= WIRE_WAITS_MAX && message->waits.more <= 1;
	case WIRE_PART:
		return message->part.length <= WIRE_PART_SIZE;
	default:
		return true;
	}
}

int wire_check(const struct wire_message *message, size_t length)
{
	if (length != WIRE_SIZE)
		return error_set(-EPROTO, "a message of %zu bytes arrived where all have %d", length, WIRE_SIZE);
	if (message->magic != WIRE_MAGIC)
		return error_set(-EPROTO, "the peer does not speak gpubroker's protocol");
	if (message->version != WIRE_VERSION)
		return error_set(-EPROTO, "the peer speaks protocol version %u and this side version %u: "
					  "use broker and library of one release",
				 message->version, WIRE_VERSION);
	if (message->type < WIRE_CHALLENGE || message->type >= WIRE_TYPES || !is_well_formed(message))
		return error_set(-EPROTO, "a malformed message arrived (type %u)", message->type);
	return 0;
}

const char *wire_type_name(unsigned type)
{
	static const char *const names[WIRE_TYPES] = {
		[WIRE_CHALLENGE] = "CHALLENGE", [WIRE_HELLO] = "HELLO",     [WIRE_WELCOME] = "WELCOME",
		[WIRE_CREATE] = "CREATE",       [WIRE_UNLINK] = "UNLINK",   [WIRE_STAT] = "STAT",
		[WIRE_ACQUIRE] = "ACQUIRE",     [WIRE_CLOSED] = "CLOSED",   [WIRE_WRITER] = "WRITER",
		[WIRE_LEAVE] = "LEAVE",         [WIRE_DONE] = "DONE",       [WIRE_INFO] = "INFO",
		[WIRE_GRANT] = "GRANT",         [WIRE_NOTICE] = "NOTICE",   [WIRE_REFUSED] = "REFUSED",
		[WIRE_LEFT] = "LEFT",           [WIRE_CHANGE] = "CHANGE",   [WIRE_DRAIN] = "DRAIN",
		[WIRE_EVICT] = "EVICT",         [WIRE_ISSUE] = "ISSUE",     [WIRE_TICKET] = "TICKET",
		[WIRE_REDEEM] = "REDEEM",       [WIRE_QUIESCED] = "QUIESCED",
		[WIRE_REFRESH] = "REFRESH",     [WIRE_INQUIRE] = "INQUIRE", [WIRE_WAITS] = "WAITS",
		[WIRE_SNAPSHOT] = "SNAPSHOT",   [WIRE_PART] = "PART",       [WIRE_VIEW] = "VIEW",
		[WIRE_RIGHTS] = "RIGHTS",       [WIRE_SEAL] = "SEAL",       [WIRE_RENAME] = "RENAME",
		[WIRE_NEWER] = "NEWER",         [WIRE_MEMORY] = "MEMORY",
		[WIRE_RESIZE] = "RESIZE",       [WIRE_CANCEL] = "CANCEL",
	};

	return type < WIRE_TYPES && names[type] ? names[type] : "?";
}

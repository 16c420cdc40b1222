/* SPDX-License-Identifier: Apache-2.0 */
/* journal.c - see journal.h */
#include "journal.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/environment.h"

#define DATAGRAM_MAX 4096

static struct {
	bool               is_open;
	int                fd;
	struct sockaddr_un address;
} journal;

/*
 * Returns true if stderr is the file that $JOURNAL_STREAM names. The variable alone is no proof: a program whose stderr
 * was redirected inherits it, too.
 */
static bool stderr_is_journal(void)
{
	const char *stream = environment_get("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;

	return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 && !fstat(STDERR_FILENO, &st) &&
	       st.st_dev == device && st.st_ino == inode;
}

void journal_open(const char *path)
{
	if (journal.is_open || !stderr_is_journal() || strlen(path) >= sizeof journal.address.sun_path)
		return;
	journal.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (journal.fd < 0)
		return;
	journal.address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	strcpy(journal.address.sun_path, path);
	journal.is_open = true;
}

void journal_close(void)
{
	if (journal.is_open)
		close(journal.fd);
	journal.is_open = false;
}

struct datagram {
	char   bytes[DATAGRAM_MAX];
	size_t length;
	bool   is_full;
};

static void add(struct datagram *datagram, const void *bytes, size_t size)
{
	if (size > sizeof datagram->bytes - datagram->length) {
		datagram->is_full = true;
		return;
	}
	memcpy(datagram->bytes + datagram->length, bytes, size);
	datagram->length += size;
}

static void add_field(struct datagram *datagram, const char *name, const char *value)
{
	size_t size = strlen(value);
	uint64_t length = htole64(size);

	add(datagram, name, strlen(name));
	if (strchr(value, '\n')) {
		add(datagram, "\n", 1);
		add(datagram, &length, sizeof length);
	} else {
		add(datagram, "=", 1);
	}
	add(datagram, value, size);
	add(datagram, "\n", 1);
}

static void add_number(struct datagram *datagram, const char *name, uint64_t number)
{
	char value[24];

	snprintf(value, sizeof value, "%llu", (unsigned long long)number);
	add_field(datagram, name, value);
}

/* Sends to the address each time, without connect(2), because a restarted journal has another socket at the address. */
bool journal_send(int priority, const struct journal_field *fields, unsigned count, const char *text)
{
	struct datagram datagram;

	if (!journal.is_open)
		return false;
	datagram.length = 0;
	datagram.is_full = false;
	add_field(&datagram, "MESSAGE", text);
	add_number(&datagram, "PRIORITY", (uint64_t)priority);
	add_field(&datagram, "SYSLOG_IDENTIFIER", program_invocation_short_name);
	for (unsigned i = 0; i < count; i++) {
		if (fields[i].there && fields[i].text)
			add_field(&datagram, fields[i].name, fields[i].text);
		else if (fields[i].there)
			add_number(&datagram, fields[i].name, fields[i].number);
	}
	return !datagram.is_full &&
	       sendto(journal.fd, datagram.bytes, datagram.length, MSG_DONTWAIT | MSG_NOSIGNAL,
		      (const struct sockaddr *)&journal.address, sizeof journal.address) == (ssize_t)datagram.length;
}

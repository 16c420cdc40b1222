/* SPDX-License-Identifier: Apache-2.0 */
/* flood.c - see flood.h */
#include "flood.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "attacks.h"
#include "common/socket.h"

#define SESSIONS_MAX 250
#define UNANSWERED   900 /* a session's at most: with more it would be cut off, and the flood be over */

static struct speaker s[SESSIONS_MAX];
static uint64_t said[SESSIONS_MAX];
static _Atomic uint64_t *received; /* of each session, shared with the reader */

/* One of the sockets is ready, or a while is over. */
static void wait_until(short ready, unsigned sessions)
{
	struct pollfd p[SESSIONS_MAX];

	for (unsigned i = 0; i < sessions; i++)
		p[i] = (struct pollfd){ .fd = s[i].sock, .events = ready };
	poll(p, sessions, 20);
}

static void read_one(unsigned i)
{
	struct wire_message packet[SOCKET_PACKET_MAX];
	ssize_t got;

	while ((got = recv(s[i].sock, packet, sizeof packet, MSG_DONTWAIT)) > 0)
		atomic_fetch_add(&received[i], (uint64_t)got / WIRE_SIZE);
	if (!got)
		_exit(1);
}

_Noreturn static void read_for_ever(unsigned sessions)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		for (unsigned i = 0; i < sessions; i++)
			read_one(i);
		wait_until(POLLIN, sessions);
	}
}

/* As much as the socket takes. */
static void send_to(unsigned i, const struct wire_message *packet, unsigned packed)
{
	while (said[i] - atomic_load(&received[i]) < UNANSWERED &&
	       !speaker_send(&s[i], packet, packed * sizeof *packet, MSG_DONTWAIT))
		said[i] += packed;
}

static void send_for(unsigned sessions, const struct wire_message *packet, unsigned packed, unsigned milliseconds)
{
	uint64_t end = now_us() + milliseconds * 1000ull;

	while (now_us() < end) {
		for (unsigned i = 0; i < sessions; i++)
			send_to(i, packet, packed);
		wait_until(POLLOUT, sessions);
	}
}

uint64_t flood_with(unsigned sessions, const struct wire_message *packet, unsigned packed, unsigned milliseconds)
{
	uint64_t answered = 0;
	pid_t reader;
	int status = 0;

	received =
		mmap(NULL, SESSIONS_MAX * sizeof *received, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	WANT(received != MAP_FAILED && sessions <= SESSIONS_MAX && packed <= SOCKET_PACKET_MAX);
	for (unsigned i = 0; i < sessions; i++) {
		join(&s[i]);
		said[i] = 0;
	}
	reader = fork();
	if (!reader)
		read_for_ever(sessions);
	send_for(sessions, packet, packed, milliseconds);
	/* it ends by itself only where the broker has cut a session off */
	kill(reader, SIGKILL);
	WANT(waitpid(reader, &status, 0) == reader && WIFSIGNALED(status));
	for (unsigned i = 0; i < sessions; i++) {
		answered += atomic_load(&received[i]);
		speaker_end(&s[i]);
	}
	munmap(received, SESSIONS_MAX * sizeof *received);
	return answered;
}

void flood(unsigned sessions, unsigned packed, unsigned milliseconds)
{
	struct wire_message packet[SOCKET_PACKET_MAX];

	for (unsigned i = 0; i < packed; i++)
		packet[i] = speaker_message(WIRE_STAT, SHOWN);
	flood_with(sessions, packet, packed, milliseconds);
}

/* ---- connections ---- */

#define DIALERS 4

static void connect_and_close(void)
{
	struct speaker one;

	if (!speaker_dial(&one))
		speaker_end(&one);
}

/* One that is refused, or that has waited too long, tries again. */
static void greet_and_close(void)
{
	struct speaker one;

	if (!speaker_greet(&one))
		speaker_end(&one);
}

static void dial_for(void (*once)(void), unsigned milliseconds)
{
	uint64_t end = now_us() + milliseconds * 1000ull;
	pid_t pid[DIALERS];

	for (unsigned i = 0; i < DIALERS; i++) {
		pid[i] = fork();
		if (pid[i])
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			once();
	}
	while (now_us() < end)
		poll(NULL, 0, 20);
	for (unsigned i = 0; i < DIALERS; i++) {
		kill(pid[i], SIGKILL);
		waitpid(pid[i], NULL, 0);
	}
}

void flood_connections(unsigned milliseconds)
{
	dial_for(connect_and_close, milliseconds);
}

void flood_greetings(unsigned milliseconds)
{
	dial_for(greet_and_close, milliseconds);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* successor.c - see successor.h */
#include "successor.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utlist.h>

#include "broker/registry/timeline.h"
#include "broker/keeper/line.h"
#include "broker/request/acquire.h"
#include "broker/request/reclaim.h"
#include "broker/session/session-end.h"
#include "broker/status/status.h"

#define LANES 2

struct broker successor;
struct note note;
void (*successor_committed)(void);
static struct core parts;
static struct event_base *base;
static int lanes[LANES][2];
static bool is_noting;
static struct session_hooks seen_hooks;   /* the usual ones, seen */
static enum successor_moment moment;
static uint64_t packets_before;           /* number of the packet in hand when that was asked for */
static unsigned killed_at;                /* type of the message of that moment */
static bool is_armed;                     /* the ledger is to be copied at that moment */
static int copied = -1;                   /* the copy */
static void (*usual)(struct broker *of);  /* the living broker's own broker_publish() */
static void (*usual_commit)(struct broker *of);

/* ---- the keeper ---- */

static struct kept kept;           /* what the keeper has */
static struct line line_to_keeper; /* the living broker's */
static int keepers_end = -1;
static struct event *requests;
static bool is_hanging;
static unsigned put_count;
static struct keep keep; /* of the living broker */

/* As keeper.c does. */
static void carry_out(const struct line_request *request, int fd)
{
	if (request->kind == LINE_PUT) {
		assert_int_equal(kept_put(&kept, request->key, fd), 0);
		put_count++;
	} else {
		assert_int_equal(request->kind, LINE_DROP);
		assert_true(kept_drop(&kept, request->key)); /* nothing is dropped that is not kept */
	}
}

void keeper_read(void)
{
	struct line_request request;
	int fd;

	while (keepers_end >= 0 && !line_receive(keepers_end, &request, &fd))
		carry_out(&request, fd);
}

static void on_requests(evutil_socket_t fd, short what, void *argument)
{
	(void)fd;
	(void)what;
	(void)argument;
	keeper_read();
}

unsigned keeper_puts(void)
{
	return put_count;
}

struct kept *keeper_kept(void)
{
	return &kept;
}

void keeper_hang(bool hangs)
{
	is_hanging = hangs;
	if (hangs)
		event_del(requests);
	else
		event_add(requests, NULL);
}

static void keeper_begin(void)
{
	int pair[2];

	put_count = 0;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	keepers_end = pair[0];
	assert_int_equal(line_open(&line_to_keeper, broker.base, pair[1]), 0);
	requests = event_new(broker.base, keepers_end, EV_READ | EV_PERSIST, on_requests, NULL);
	assert_int_equal(event_add(requests, NULL), 0);
	assert_int_equal(keep_begin(&broker, &keep, &line_to_keeper), 0);
}

static void keeper_end(void)
{
	keep_end(&keep);
	line_close(&line_to_keeper);
	event_free(requests);
	close(keepers_end);
	keepers_end = -1;
	kept_clear(&kept);
}

/* ---- what a successor inherits ---- */

static const struct session *resumed; /* the living session whose socket was taken last */
static struct kept table;             /* duplicates of what the keeper has */
static struct kept kept_at_copy;      /* of what it had when the ledger was copied */
static uint64_t hand_at_copy;         /* number of the packet in hand then */
static bool is_of_copy;               /* the successor loads the copy */
static struct inherited inherited;
static struct kept_descriptors usual_descriptors;

struct inherited *successor_inherited(void)
{
	return &inherited;
}

static void inherit(void *context, uint64_t key, int fd)
{
	assert_int_equal(kept_put(context, key, fcntl(fd, F_DUPFD_CLOEXEC, 0)), 0);
}

/* Duplicates what the keeper has now. */
static void inherit_all(struct kept *to)
{
	keeper_read();
	kept_each(&kept, inherit, to);
}

static int take(void *context, enum kept_kind kind, uint64_t number)
{
	if (kind == KEPT_SOCKET)
		resumed = session_find(&broker, number);
	return usual_descriptors.take(context, kind, number);
}

/* ---- other users ---- */

int __real_identity_of_peer(int sock, pid_t *pid, struct identity *identity);
int __wrap_identity_of_peer(int sock, pid_t *pid, struct identity *identity);

/* A test has one user, so a successor finds out from the living session who its peer is. */
int __wrap_identity_of_peer(int sock, pid_t *pid, struct identity *identity)
{
	int error = __real_identity_of_peer(sock, pid, identity);

	if (error || !resumed || resumed->who.uid == identity->uid)
		return error;
	identity_clear(identity);
	identity->uid = resumed->who.uid;
	identity->gid = resumed->who.gid;
	return 0;
}

static void charge_again(struct charge *charge, uid_t uid)
{
	struct charge before = *charge;

	assert_int_equal(charge_take(charge, broker.accounting, uid, before.resource, before.amount), 0);
	charge_release(&before, broker.accounting);
}

struct peer join_as_charged(uid_t uid)
{
	struct peer peer = join_as(uid);
	struct session *session = session_of(&peer);

	charge_again(&session->charge, uid);
	charge_again(&session->descriptors, uid);
	tracked_changed(broker.tracking, &session->tracked);
	broker_publish(&broker);
	return peer;
}

/* ---- the living broker's ledger ---- */

/* Has the living broker note also which answers were sent, which alone is no reason for a commit. */
static void note_all(void)
{
	broker.tracking->urgent = true;
	broker_publish(&broker);
}

/* Returns a copy of the living broker's ledger, as it would be if that one were killed now. */
static int ledger_copied(void)
{
	int copy = memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct stat st;
	void *bytes;

	assert_int_equal(fstat(ledger_fd(&note.ledger), &st), 0);
	bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, ledger_fd(&note.ledger), 0);
	assert_true(bytes != MAP_FAILED);
	assert_int_equal(write(copy, bytes, (size_t)st.st_size), st.st_size);
	munmap(bytes, (size_t)st.st_size);
	assert_int_equal(fcntl(copy, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL), 0);
	return copy;
}

static void copy_ledger(void)
{
	if (!is_armed)
		return;
	is_armed = false;
	hand_at_copy = broker.sessions->hand->number;
	inherit_all(&kept_at_copy);
	copied = ledger_copied();
}

void successor_kill_at(enum successor_moment at)
{
	note_all();
	moment = at;
	is_armed = true;
	packets_before = broker.sessions->hand->number;
}

bool successor_is_killed(void)
{
	return !is_armed;
}

static int on_message(struct session *session, const struct wire_message *message)
{
	if (is_armed)
		killed_at = message->type;
	if (moment == KILL_RECEIVED)
		copy_ledger();
	return hooks_usual->message(session, message);
}

static void note_now(struct broker *of)
{
	if (!is_hanging)
		keeper_read();
	note_commit(of, &note);
	/* a commit after the message was handled, not one of something before it */
	if (moment == KILL_COMMITTED && of->sessions->hand->number > packets_before && of->sessions->done)
		copy_ledger();
}

static void write_and_note(struct broker *of)
{
	note_now(of);
	usual(of);
	if (successor_committed)
		successor_committed();
}

void successor_note(void)
{
	assert_int_equal(note_begin(&broker, &note), 0);
	keeper_begin();
	note.keep = &keep;
	base = event_base_new();
	assert_non_null(base);
	usual = broker.publish;
	usual_commit = broker.commit;
	broker.publish = write_and_note;
	broker.commit = note_now;
	seen_hooks = *hooks_usual;
	seen_hooks.message = on_message;
	broker.sessions->hooks = &seen_hooks;
	is_armed = false;
	is_noting = true;
	write_and_note(&broker);
}

void successor_forget(void)
{
	if (!is_noting)
		return;
	is_noting = false;
	successor_committed = NULL;
	broker.sessions->hooks = hooks_usual;
	broker.publish = usual;
	broker.commit = usual_commit;
	keeper_end();
	note_end(&broker, &note);
	event_base_free(base);
}

/* ---- the successor ---- */

static void board_copy(struct board_owner *board)
{
	size_t words = broker.config->buffers * sizeof *board->board.words;
	size_t ends = broker.config->buffers * sizeof *board->board.ends;

	*board = *broker.board;
	board->board.words = calloc(1, words);
	board->board.ends = calloc(1, ends);
	memcpy((void *)board->board.words, (const void *)broker.board->board.words, words);
	memcpy((void *)board->board.ends, (const void *)broker.board->board.ends, ends);
}

static void on_lost(void *context)
{
	(void)context;
}

static void jobs_begin(void)
{
	int socks[LANES];

	for (unsigned i = 0; i < LANES; i++) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, lanes[i]), 0);
		socks[i] = lanes[i][0];
	}
	assert_int_equal(jobs_start(successor.jobs, base, socks, LANES, on_lost, NULL), 0);
	successor.jobs->lost = true; /* jobs wait */
	successor.jobs->tracking = successor.tracking;
}

static void publish(struct broker *of)
{
	marks_publish(of->marks);
	registry_store_words(of->registry);
}

static void share_master(void)
{
	int fd = master_key_share(broker.master);

	assert_true(fd >= 0);
	assert_int_equal(master_key_init(&parts.master, fd), 0);
	close(fd);
}

void successor_begin(void)
{
	static const struct registry_hooks hooks = { acquire_notice, delegation_forget };
	const struct memory_orders orders = { reclaim_clean, reclaim_release, &successor };

	if (is_of_copy)
		table = kept_at_copy;
	else
		inherit_all(&table);
	inherited = (struct inherited){ .kept = &table };
	memset(&parts, 0, sizeof parts);
	broker_join(&successor, &parts);
	parts.config = *broker.config;
	successor.base = base;
	successor.device = broker.device;
	successor.discard = broker.discard; /* has threads */
	successor.events = NULL;
	successor.publish = publish;
	board_copy(successor.board);
	accounting_init(successor.accounting);
	successor.accounting->tracking = successor.tracking;
	share_master();
	assert_int_equal(delegation_init(successor.delegation, successor.master), 0);
	memory_init(successor.memory, successor.accounting, &orders);
	successor.memory->exported = broker.memory->exported;
	successor.memory->descriptors = broker.memory->descriptors;
	successor.memory->tracking = successor.tracking;
	assert_int_equal(addresses_init(&successor.memory->addresses, 1), 0);
	assert_int_equal(registry_init(successor.registry, successor.memory, successor.board->board.words,
				       parts.config.buffers, parts.config.handles, &hooks, &successor),
			 0);
	successor.registry->tracking = successor.tracking;
	successor.registry->marks = successor.marks;
	successor.registry->trust = broker.registry->trust;
	successor.registry->defers = successor.marks->defers = true;
	pool_init(&successor, &(struct pool_limits){ broker.memory->usages.limit, broker.pool->objects },
		  &successor.memory->usages);
	assert_int_equal(marks_init(&successor), 0);
	assert_int_equal(fair_queue_init(successor.queue, base, successor.accounting), 0);
	successor.sessions->hooks = broker.sessions->hooks;
	successor.sessions->hand = &parts.sessions.own_hand;
	successor.notes = true; /* so that it keeps what it would note */
	successor.sessions->pendings.tracking = successor.tracking;
	assert_int_equal(outboxes_init(&successor.sessions->outboxes), 0);
	jobs_begin();
}

int successor_go_on(int ledger, struct loaded *loaded)
{
	struct kept_descriptors descriptors;
	int error;

	usual_descriptors = inherited_descriptors(&inherited);
	descriptors = usual_descriptors;
	descriptors.take = take;
	error = load_ledger(&successor, ledger, &descriptors, loaded);
	resumed = NULL;
	return error;
}

/* A timeline that ends would end in its page, which is the living broker's, too. */
static void timelines_stay(void)
{
	struct buffer *buffer;

	for (buffer = successor.registry->serials; buffer; buffer = buffer->by_serial.next)
		if (buffer->timeline && !buffer->timeline->writer)
			buffer->timeline->writer = UINT64_MAX;
}

int successor_load(int ledger, struct loaded *loaded)
{
	successor_begin();
	return successor_go_on(ledger, loaded);
}

void successor_expect_same_effect(void)
{
	struct loaded loaded;
	char text[100];

	assert_true(copied >= 0);
	broker_publish(&broker);
	is_of_copy = true;
	assert_int_equal(successor_load(copied, &loaded), 0);
	is_of_copy = false;
	/* a broker that dies now leaves the packet to the next one */
	assert_int_equal(successor.sessions->hand->number, hand_at_copy);
	kept_at_copy = (struct kept){ 0 };
	if (loaded.damaged)
		print_message("at %s of %s: %s\n", moment == KILL_RECEIVED ? "the receive" : "the commit",
			      wire_row(killed_at)->name, error_text());
	assert_int_equal(loaded.damaged, 0);
	assert_int_equal(load_resume(&successor, false), 0);
	sessions_commit(&successor);
	text_hides_chance = true;
	snprintf(text, sizeof text, "the living broker and its successor, at %s of %s,",
		 moment == KILL_RECEIVED ? "the receive" : "the commit", wire_row(killed_at)->name);
	if (!successor.jobs->pending)
		expect_same(text, broker_text(&broker), broker_text(&successor));
	text_hides_chance = false;
	close(copied);
	copied = -1;
}

void successor_end(void)
{
	timelines_stay();
	usages_limit(&successor.memory->usages, 0);
	sessions_deinit(&successor);
	jobs_fail(successor.jobs); /* those that wait, whose creations would be left */
	event_base_loop(base, EVLOOP_NONBLOCK);
	jobs_stop(successor.jobs);
	fair_queue_deinit(successor.queue);
	marks_deinit(successor.marks);
	registry_deinit(successor.registry);
	pool_forget(&successor);
	memory_deinit(successor.memory);
	delegation_deinit(successor.delegation);
	master_key_deinit(&parts.master);
	inherited_forget(&inherited);
	kept_clear(&table);
	accounting_deinit(successor.accounting);
	tracking_deinit(successor.tracking);
	free((void *)successor.board->board.words);
	free(successor.board->board.ends);
	for (unsigned i = 0; i < LANES; i++) {
		close(lanes[i][0]);
		close(lanes[i][1]);
	}
}

/* ---- equal ---- */

/*
 * Hides what a successor numbers anew: its orders, and the age of spare memory, whose order broker_text() has.
 */
static void hide_numbers(const struct ledger_record *record, uint8_t *bytes)
{
	struct allocation_record *allocation = (struct allocation_record *)bytes;

	if (record->type == NOTE_NUMBERS)
		((struct numbers_record *)bytes)->order = 0;
	if (record->type != TRACKED_ALLOCATION)
		return;
	if (allocation->spare)
		allocation->spare = 1;
	/* whether it is zeroed before it is freed is decided again */
	allocation->releasing &= allocation->state != ALLOCATION_FREEING;
}

static void record_line(const struct ledger_record *record, void *context)
{
	static const char digits[] = "0123456789abcdef";
	char text[2 * LEDGER_RECORD_MAX + 1];
	uint8_t bytes[LEDGER_RECORD_MAX] __attribute__((aligned(8)));

	(void)context;
	if (record->type == NOTE_HAND)
		return; /* its own in each ledger */
	ledger_copy(record, bytes, sizeof bytes);
	hide_numbers(record, bytes);
	for (size_t i = 0; i < record->size; i++) {
		text[2 * i] = digits[bytes[i] >> 4];
		text[2 * i + 1] = digits[bytes[i] & 15];
	}
	text[2 * record->size] = 0;
	row("record of type %u: %s", record->type, text);
}

static char *ledger_text(const struct note *of)
{
	struct ledger_view view;

	assert_int_equal(ledger_open(&view, ledger_fd(&of->ledger)), 0);
	assert_int_equal(ledger_each(&view, record_line, NULL), 0);
	ledger_close(&view);
	return text_take();
}

/* What the broker notes when it notes all that it has: in a new ledger, or in that one, which has other records. */
static char *noted_anew(struct broker *of, int ledger)
{
	static struct note anew;
	struct broker before = *of;
	struct hand *hand = of->sessions->hand;
	int (*reserve)(void *, uint32_t) = of->tracking->reserve;
	char *text;

	if (ledger < 0) {
		assert_int_equal(note_begin(of, &anew), 0);
		note_commit(of, &anew);
	} else {
		assert_int_equal(note_go_on(of, &anew, ledger), 0);
		while (of->tracking->changes[SINK_LEDGER].count) /* as before the load */
			tracking_take(of->tracking, SINK_LEDGER);
		of->counters.sessions_cut++;
		note_commit(of, &anew);
		of->counters.sessions_cut--;
		expect_same("a ledger before it is loaded, and the last one,", ledger_text(&anew), ledger_text(&note));
		assert_int_equal(note_loaded(of, &anew, false), 0);
	}
	text = ledger_text(&anew);
	note_end(of, &anew);
	of->note = before.note;
	of->notes = before.notes;
	of->sessions->hand = hand;
	of->sessions->pendings.tracking = of->tracking;
	of->tracking->reserve = reserve;
	return text;
}

void expect_same(const char *what, char *one, char *other)
{
	const char *a = one, *b = other;

	if (!strcmp(one, other)) {
		free(one);
		free(other);
		return;
	}
	while (*a == *b) {
		a++;
		b++;
	}
	while (a > one && a[-1] != '\n') {
		a--;
		b--;
	}
	print_message("%s differ:\n%.*s\n%.*s\n", what, (int)strcspn(a, "\n"), a, (int)strcspn(b, "\n"), b);
	fail();
}

static uint64_t inode_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_ino;
}

void expect_replaced_ledger(bool damaged)
{
	static struct note anew;
	struct loaded loaded;
	int copy;

	note_all();
	copy = ledger_copied();
	successor_begin();
	assert_int_equal(note_go_on(&successor, &anew, copy), 0);
	assert_int_equal(inode_of(ledger_fd(&anew.ledger)), inode_of(copy));
	assert_int_equal(successor_go_on(copy, &loaded), 0);
	successor.sessions->hand->crashes = 7;
	assert_int_equal(note_loaded(&successor, &anew, damaged), 1);
	assert_int_not_equal(inode_of(ledger_fd(&anew.ledger)), inode_of(copy));
	assert_ptr_equal(successor.sessions->hand, ledger_hand(&anew.ledger));
	assert_int_equal(successor.sessions->hand->crashes, 7);
	expect_same("the ledger and the one in its place", ledger_text(&note), ledger_text(&anew));
	note_end(&successor, &anew);
	close(copy);
	successor_end();
}

void expect_equal_successor(void)
{
	struct loaded loaded;
	int copy;

	note_all();
	expect_same("the ledger and the living broker", ledger_text(&note), noted_anew(&broker, -1));
	assert_int_equal(successor_load(ledger_fd(&note.ledger), &loaded), 0);
	if (loaded.damaged)
		print_message("%u records are damaged: %s\n", loaded.damaged, error_text());
	assert_int_equal(loaded.damaged, 0);
	assert_int_equal(loaded.left_out, 0);
	assert_int_equal(kept_count(&table), 0); /* nothing is kept that no record names */
	expect_same("the living broker and its successor", broker_text(&broker), broker_text(&successor));
	copy = ledger_copied();
	expect_same("the ledger and that of a successor", ledger_text(&note), noted_anew(&successor, copy));
	close(copy);
	successor_end();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* watch.c - see watch.h */
#include "watch.h"

#include <errno.h>

#include "common/error.h"

#if HAVE_CURSES

#include <curses.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "common/now.h"
#include "common/size.h"
#include "common/tables.h"
#include "owner-lines.h"
#include "process.h"
#include "rates.h"

#define TEXT_MAX    1024 /* size of a line in bytes, with the NUL: no terminal is wider */
#define HISTORY     10   /* largest width of the history of the rates in the head, in characters */
#define ROW_HISTORY 8    /* width of the history of a device, session or buffer, in characters */
#define DEVICES_MAX 4    /* largest number of lines for devices; another limit is a quarter of the screen */
/* if poll(2) reports input more often than this in a row, and no key can be read, the terminal counts as gone */
#define NO_KEYS_MAX 8

static const enum table_kind tabs[] = { TABLE_SESSIONS, TABLE_BUFFERS, TABLE_USERS };

#define TABS (sizeof tabs / sizeof *tabs)

struct watch {
	const char      *instance;
	struct selection selection;
	struct shown     shown; /* the last status that could be read */
	char             trouble[ERROR_TEXT_MAX]; /* why the status cannot be read now; "": it can be read */
	struct rates     rates;
	unsigned         tab;               /* index in tabs of the table that is shown */
	/* index of the row at the top; number of all rows; number of rows that fit on the screen */
	size_t           first, rows, room;
	int              line;              /* number of the line of the screen that put() writes next */
	/* utf8, color: what the terminal can show; paused: no looks are taken; ended: the user has quit */
	bool             utf8, color, paused, ended;
	/* interval of looks in seconds; number of reports in a row of a key that could not be read */
	unsigned         seconds, no_keys;
};

/* ---- signals ---- */

static volatile sig_atomic_t ended_by;

static void on_signal(int number)
{
	ended_by = number;
}

static const int fatal[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

/*
 * Installs handlers of the signals that end the program, and blocks these signals except during ppoll(2). Sets *before
 * to the former mask.
 */
static void signals_take(sigset_t *before)
{
	struct sigaction action = { .sa_handler = on_signal };
	sigset_t held;

	sigemptyset(&held);
	for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) {
		sigaction(fatal[i], &action, NULL);
		sigaddset(&held, fatal[i]);
	}
	sigprocmask(SIG_BLOCK, &held, before);
}

static void signals_raise(const sigset_t *before)
{
	if (ended_by) {
		signal(ended_by, SIG_DFL);
		raise(ended_by);
	}
	sigprocmask(SIG_SETMASK, before, NULL);
}

/* ---- lines ---- */

/* Writes the next line of the screen: printable ASCII, cut at the screen's width. */
static void put(struct watch *watch, attr_t attributes, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void put(struct watch *watch, attr_t attributes, const char *format, ...)
{
	char text[TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	text_fit(text, sizeof text, text, COLS > 0 ? (size_t)COLS : 1);
	if (watch->line >= LINES)
		return;
	attrset(attributes);
	mvaddnstr(watch->line++, 0, text, -1);
	attrset(A_NORMAL);
}

static attr_t tone_attributes(const struct watch *watch, enum tone tone)
{
	if (tone == TONE_PLAIN)
		return A_NORMAL;
	if (!watch->color)
		return A_BOLD;
	return (attr_t)COLOR_PAIR(tone == TONE_WARNING ? 1 : 2);
}

/* Draws a history of levels "0" to "7" at a position: as block characters, or as ASCII if the terminal has no UTF-8. */
static void put_history(const struct watch *watch, int line, int column, const char *levels)
{
	static const char *const marks[2][8] = { { "_", ".", ":", "-", "=", "+", "*", "#" },
						 { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" } };

	for (; *levels && line < LINES && column < COLS; levels++, column++)
		if (*levels >= '0' && *levels <= '7')
			mvaddstr(line, column, marks[watch->utf8][*levels - '0']);
}

/* ---- the head ---- */

static const char *rate_text(double rate, bool bytes, char text[SIZE_TEXT_MAX])
{
	if (bytes)
		return size_short((uint64_t)rate, text);
	snprintf(text, SIZE_TEXT_MAX, rate < 10 ? "%.1f" : "%.0f", rate);
	return text;
}

static void put_rates(struct watch *watch)
{
	static const struct {
		enum rate   rate;
		const char *name;
	} shown[] = { { RATE_CREATES, "creates" }, { RATE_ACQUIRES, "acquires" }, { RATE_BYTES, "allocated" } };
	char text[64], amount[SIZE_TEXT_MAX], levels[HISTORY_MAX + 1];
	int line = watch->line++, room = COLS / RATES;

	for (int i = 0; i < RATES && line < LINES; i++) {
		int length = snprintf(text, sizeof text, "%s %s/s ", shown[i].name,
				      rate_text(rates_now(&watch->rates, shown[i].rate), shown[i].rate == RATE_BYTES,
						amount));
		int width = room - length - 1 < HISTORY ? room - length - 1 : HISTORY;

		mvaddnstr(line, i * room, text, room);
		if (width > 0)
			put_history(watch, line, i * room + length,
				    history_levels(&watch->rates.history[shown[i].rate], 0, levels, (size_t)width));
	}
}

static void put_device(struct watch *watch, const json_t *device)
{
	char used[SIZE_TEXT_MAX], kept[SIZE_TEXT_MAX], left[SIZE_TEXT_MAX], all[SIZE_TEXT_MAX], text[TEXT_MAX];
	uint64_t bytes = json_number(device, "bytes"), taken = json_number(device, "used");
	int line = watch->line, length;

	length = snprintf(text, sizeof text, "device %llu: %s of %s used (%d%%), %s kept, %s free  ",
			  (unsigned long long)json_number(device, "index"), size_short(taken, used),
			  size_short(bytes, all), bytes ? (int)(100 * ((double)taken / (double)bytes)) : 0,
			  size_short(json_number(device, "idle") + json_number(device, "pooled"), kept),
			  size_short(json_number(device, "free"), left));
	put(watch, A_NORMAL, "%s", text);
	put_history(watch, line, length, json_text(device, "history"));
}

static void put_devices(struct watch *watch)
{
	const json_t *devices = json_object_get(watch->shown.text, "devices");
	size_t most = LINES > 16 ? (size_t)LINES / 4 : 1, count = json_array_size(devices);

	most = most < DEVICES_MAX ? most : DEVICES_MAX;
	for (size_t i = 0; i < count && i < most; i++)
		put_device(watch, json_array_get(devices, i));
	if (count > most)
		put(watch, A_NORMAL, "and %zu more devices", count - most);
}

/* Says what is out of order with the owner of the device memory. */
static void put_owner(struct watch *watch)
{
	struct owner_line lines[OWNER_LINES_MAX];
	size_t count = owner_lines(&watch->shown, lines);

	for (size_t i = 0; i < count; i++)
		if (lines[i].tone != TONE_PLAIN)
			put(watch, tone_attributes(watch, lines[i].tone), "%s", lines[i].text);
}

static void put_state(struct watch *watch)
{
	const struct shown *shown = &watch->shown;
	unsigned long long pid = shown->header.pid;
	time_t now = time(NULL);
	struct tm parts;
	char clock[16] = "";

	if (localtime_r(&now, &parts))
		strftime(clock, sizeof clock, "%H:%M:%S", &parts);
	put(watch, A_BOLD, "broker %s: %s, pid %llu, %llu waiting  %s every %u s%s", shown->instance,
	    *watch->trouble ? "cannot be read" : shown_state_name(shown->state), pid,
	    (unsigned long long)json_number(shown->text, "waiting"), clock, watch->seconds,
	    watch->paused ? ", paused" : "");
	if (*watch->trouble) {
		put(watch, tone_attributes(watch, TONE_ALARM), "This is its last status. Waiting for another:");
		put(watch, tone_attributes(watch, TONE_ALARM), "%s", watch->trouble);
	} else if (shown->state == SHOWN_STOPPED) {
		put(watch, tone_attributes(watch, TONE_ALARM),
		    "It was stopped by a signal and serves nobody until: kill -CONT %llu",
		    (unsigned long long)shown_process(shown));
	} else if (shown->state == SHOWN_DEAD) {
		put(watch, tone_attributes(watch, TONE_ALARM),
		    "Its process is gone; the next broker of its user removes what it left.");
	}
	if (!shown->trusted)
		put(watch, tone_attributes(watch, TONE_ALARM),
		    "The status file may be anybody's word: it is not this user's or root's.");
	put_owner(watch);
}

/* ---- the table ---- */

static const char *rows_name(unsigned tab)
{
	return table_name(tabs[tab]);
}

static void put_tabs(struct watch *watch)
{
	int column = 0, line = watch->line++;

	if (line >= LINES)
		return;
	for (unsigned i = 0; i < TABS; i++) {
		char text[64];

		snprintf(text, sizeof text, " %s %zu ", rows_name(i),
			 json_array_size(json_object_get(watch->shown.text, rows_name(i))));
		if (column + (int)strlen(text) >= COLS)
			break;
		attrset(i == watch->tab ? A_REVERSE : A_NORMAL);
		mvaddstr(line, column, text);
		attrset(A_NORMAL);
		column += (int)strlen(text) + 1;
	}
	if (column + 40 < COLS)
		mvprintw(line, column + 1, "by %s%s, rows %zu to %zu of %zu", watch->selection.reversed ? "-" : "",
			 watch->selection.sort ? watch->selection.sort : "memory", watch->rows ? watch->first + 1 : 0,
			 watch->first + watch->room < watch->rows ? watch->first + watch->room : watch->rows,
			 watch->rows);
}

/* Returns the position of the column "history" in a line, in characters; -1: the table has none. */
static int history_column(const struct grid *grid)
{
	size_t column = 0;

	for (size_t i = 0; i < grid->count; i++) {
		if (!strcmp(grid->columns[i]->name, "history"))
			return (int)column;
		column += grid->widths[i] + GRID_GAP;
	}
	return -1;
}

static void put_rows(struct watch *watch, const struct grid *grid)
{
	int column = history_column(grid);
	char line[GRID_LINE_MAX];

	grid_heading(grid, line);
	put(watch, A_UNDERLINE, "%s", line);
	for (size_t row = watch->first; row < grid->rows_count && row < watch->first + watch->room; row++) {
		int at = watch->line;

		grid_line(grid, row, line);
		put(watch, tone_attributes(watch, grid_tone(grid, row)), "%s", line);
		if (column >= 0)
			put_history(watch, at, column, json_text(grid->rows[row], "history"));
	}
}

/* Draws the tabs and the table below the head, and leaves a line for the keys at the bottom. */
static int put_table(struct watch *watch)
{
	const struct paper paper = { .width = COLS > 0 ? (size_t)COLS : 1, .now = time(NULL) };
	struct grid grid;
	int error = grid_make(&grid, tabs[watch->tab], json_object_get(watch->shown.text, rows_name(watch->tab)),
			      &watch->selection, &paper);

	if (error)
		return error;
	watch->rows = grid.rows_count;
	watch->room = LINES > watch->line + 3 ? (size_t)(LINES - watch->line - 3) : 0;
	if (watch->first + watch->room > watch->rows)
		watch->first = watch->rows > watch->room ? watch->rows - watch->room : 0;
	put_tabs(watch);
	put_rows(watch, &grid);
	grid_free(&grid);
	return 0;
}

static int draw(struct watch *watch)
{
	int error;

	erase();
	watch->line = 0;
	put_state(watch);
	put_rates(watch);
	put_devices(watch);
	error = put_table(watch);
	watch->line = LINES - 1;
	put(watch, A_REVERSE, "%s",
	    COLS < 76 ? "q quit  Tab table  < > sort  r reverse  space pause" :
			"q quit  Tab table  < > sort by  r reverse  arrows PgUp PgDn scroll  space pause");
	refresh();
	return error;
}

/* ---- looking ---- */

static double seconds_now(void)
{
	return (double)now_ns(CLOCK_MONOTONIC) / 1e9;
}

/* Reads the broker's status. On error keeps the last status, and sets watch->trouble. */
static int look(struct watch *watch)
{
	struct shown shown;
	int error = shown_read(&shown, watch->instance);

	if (error) {
		snprintf(watch->trouble, sizeof watch->trouble, "%s", error_text());
		return error;
	}
	*watch->trouble = 0;
	processes_add(&shown);
	rates_look(&watch->rates, &shown, seconds_now(), ROW_HISTORY);
	shown_free(&watch->shown);
	watch->shown = shown;
	return 0;
}

/* ---- keys ---- */

/* Sorts the table by the next column (step 1) or the previous one (step -1). */
static void sort_by(struct watch *watch, int step)
{
	const struct column *of[GRID_COLUMNS_MAX];
	const char *name = watch->selection.sort;
	const struct column *now = name ? column_in(tabs[watch->tab], name) : NULL;
	int count = 0, at = -1;

	for (size_t i = 0; i < columns_count; i++) {
		if (columns[i].table != tabs[watch->tab] || columns[i].shown == SHOWN_ON_REQUEST ||
		    !strcmp(columns[i].name, "history"))
			continue;
		if (&columns[i] == now)
			at = count;
		of[count++] = &columns[i];
	}
	if (!count)
		return;
	at = at < 0 && step < 0 ? count - 1 : (at + step + count) % count;
	watch->selection.sort = of[at]->name;
	watch->selection.reversed = false;
	watch->first = 0;
}

static void tab_next(struct watch *watch)
{
	do
		watch->tab = (watch->tab + 1) % TABS;
	while (!selection_has(&watch->selection, tabs[watch->tab]));
	watch->first = 0;
}

static void scroll_by(struct watch *watch, long rows)
{
	long first = (long)watch->first + rows;

	watch->first = first > 0 ? (size_t)first : 0;
}

static void key_take(struct watch *watch, int key)
{
	switch (key) {
	case 'q':
	case 'Q':
		watch->ended = true;
		break;
	case '\t':
		tab_next(watch);
		break;
	case '<':
	case KEY_LEFT:
		sort_by(watch, -1);
		break;
	case '>':
	case KEY_RIGHT:
		sort_by(watch, 1);
		break;
	case 'r':
		watch->selection.reversed = !watch->selection.reversed;
		break;
	case ' ':
		watch->paused = !watch->paused;
		break;
	case 'k':
	case KEY_UP:
		scroll_by(watch, -1);
		break;
	case 'j':
	case KEY_DOWN:
		scroll_by(watch, 1);
		break;
	case KEY_PPAGE:
		scroll_by(watch, -(long)watch->room);
		break;
	case KEY_NPAGE:
		scroll_by(watch, (long)watch->room);
		break;
	case KEY_HOME:
	case 'g':
		watch->first = 0;
		break;
	case KEY_END:
	case 'G':
		watch->first = watch->rows;
		break;
	default:
		break;
	}
}

static void keys_take(struct watch *watch, bool readable)
{
	int key, count = 0;

	while ((key = getch()) != ERR) {
		key_take(watch, key);
		count++;
	}
	watch->no_keys = readable && !count ? watch->no_keys + 1 : 0;
}

/* Waits until the time `second`, a key, a new size of the screen or a signal, and handles the keys. */
static int wait_until(struct watch *watch, double second, const sigset_t *mask)
{
	double left = second - seconds_now();
	struct timespec pause = { 0 };
	struct pollfd keys = { .fd = STDIN_FILENO, .events = POLLIN };

	if (left > 0)
		pause = (struct timespec){ (time_t)left, (long)((left - (double)(time_t)left) * 1e9) };
	if (ppoll(&keys, 1, &pause, mask) < 0 && errno != EINTR)
		return error_set(-errno, "the terminal cannot be waited for: %m");
	keys_take(watch, keys.revents & POLLIN);
	if (keys.revents & (POLLHUP | POLLERR | POLLNVAL) || watch->no_keys > NO_KEYS_MAX)
		return error_set(-ENOTTY, "the terminal is gone");
	return 0;
}

static int watch_on(struct watch *watch, const sigset_t *mask)
{
	double next = seconds_now() + watch->seconds;
	int error = 0;

	while (!error && !watch->ended && !ended_by) {
		error = draw(watch);
		if (!error)
			error = wait_until(watch, next, mask);
		if (seconds_now() < next)
			continue;
		if (!watch->paused)
			look(watch);
		next = seconds_now() + watch->seconds;
	}
	return error;
}

/* ---- the terminal ---- */

static SCREEN *screen_open(struct watch *watch)
{
	SCREEN *screen;

	setlocale(LC_CTYPE, "");
	watch->utf8 = HAVE_WIDE_CURSES && !strcmp(nl_langinfo(CODESET), "UTF-8");
	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return NULL;
	watch->color = watch->color && has_colors() && start_color() == OK && use_default_colors() == OK;
	if (watch->color) {
		init_pair(1, COLOR_YELLOW, -1);
		init_pair(2, COLOR_RED, -1);
	}
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(25);
	curs_set(0);
	return screen;
}

static int watch_screen(struct watch *watch)
{
	sigset_t before;
	SCREEN *screen;
	int error = 0;

	screen = screen_open(watch);
	if (!screen)
		return error_set(-ENOTTY, "this terminal cannot be used: set TERM to its type");
	signals_take(&before);
	error = watch_on(watch, &before);
	endwin();
	delscreen(screen);
	signals_raise(&before);
	return error;
}

int watch_show(const char *instance, const struct table_options *options, unsigned seconds)
{
	struct watch watch = { .instance = instance,
			       .selection = options->selection,
			       .color = options->paper.color,
			       .seconds = seconds };
	int error;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return error_set(-ENOTTY, "--watch needs a terminal: leave it out to write into a pipe or a file");
	tables_init();
	if (!selection_has(&watch.selection, tabs[0]))
		tab_next(&watch);
	error = look(&watch);
	if (!error)
		error = watch_screen(&watch);
	rates_free(&watch.rates);
	shown_free(&watch.shown);
	return error;
}

#else

int watch_show(const char *instance, const struct table_options *options, unsigned seconds)
{
	(void)instance;
	(void)options;
	(void)seconds;
	return error_set(-ENOTSUP, "this broker-status was built without ncurses, which --watch needs: install "
				   "libncurses-dev and build it again, or type: watch broker-status");
}

#endif

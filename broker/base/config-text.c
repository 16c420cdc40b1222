/* SPDX-License-Identifier: Apache-2.0 */
/* config-text.c - see config-text.h */
#include "config-text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

/*
 * true: an error of the file that is being read is set. libconfuse goes on after an error, but only the first is
 * reported.
 */
static _Thread_local bool refused;
static _Thread_local const struct config_file *reading;

/* Replacements of libconfuse's messages for files of every kind. */
static const struct config_message messages[] = {
	{ "missing equal sign after option '%s'", "'%s' has no value: write a '=' and the value behind it" },
	{ "attempt to append to non-list option '%s'", "'%s' has one value: write '=' instead of '+='" },
	{ "invalid integer value for option '%s'", "the value of '%s' is no number: give one such as 0" },
	{ "integer value for option '%s' is out of range", "the value of '%s' is too large: give a number such as 0" },
	{ "invalid boolean value for option '%s'", "the value of '%s' is neither true nor false" },
	{ "unexpected closing brace", "there is a '}' without a '{': remove it, or add what it closes" },
	{ "invalid octal number '%s'", "'%s' is no character: write it as it is, without the backslash" },
	{ "bad escape sequence '%s'", "'%s' is no character: write it as it is, without the backslash" },
	{ NULL, NULL },
};

/*
 * Returns our format that replaces a format of libconfuse, or `format` itself if none does. Both formats take the same
 * arguments.
 */
__attribute__((format_arg(1))) static const char *message_for(const char *format)
{
	const struct config_message *const lists[] = { reading->messages, messages };

	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
		for (const struct config_message *m = lists[i]; m->theirs; m++)
			if (!strcmp(m->theirs, format))
				return m->ours;
	return format;
}

__attribute__((format(printf, 2, 0))) static void on_error(cfg_t *cfg, const char *format, va_list args)
{
	char text[240];

	if (refused)
		return;
	refused = true;
	vsnprintf(text, sizeof text, message_for(format), args);
	error_set(-EINVAL, "%s:%d: %s", reading->path, cfg ? cfg->line : 1, text);
}

int config_text_refuse(cfg_t *cfg)
{
	cfg_error(cfg, "%s", error_text());
	return -1;
}

/* ---- the text ---- */

#define TEXT_MAX (1u << 20) /* largest size of a file in bytes */

enum piece { PIECE_OTHER, PIECE_COMMENT, PIECE_STRING, PIECE_OPEN /* a comment or string without an end */ };

static enum piece comment_measure(const char *text, size_t *length)
{
	const char *end;

	*length = strcspn(text, "\n");
	if (*text != '/' || text[1] != '*')
		return PIECE_COMMENT;
	end = strstr(text + 2, "*/");
	*length = end ? (size_t)(end + 2 - text) : strlen(text);
	return end ? PIECE_COMMENT : PIECE_OPEN;
}

static enum piece string_measure(const char *text, size_t *length)
{
	const char *end = text + 1;

	while (*end && *end != *text)
		end += *end == '\\' && end[1] ? 2 : 1;
	*length = (size_t)(end - text) + (*end != 0);
	return *end ? PIECE_STRING : PIECE_OPEN;
}

/* Finds the kind and length of the token at text: a comment, a quoted string, or one character of anything else. */
static enum piece piece_measure(const char *text, size_t *length)
{
	if (*text == '#' || !strncmp(text, "//", 2) || !strncmp(text, "/*", 2))
		return comment_measure(text, length);
	if (*text == '"' || *text == '\'')
		return string_measure(text, length);
	*length = 1;
	return PIECE_OTHER;
}

/* Refuses a token that libconfuse would accept by mistake, or read as something else. */
static int piece_check(enum piece piece, const char *text, size_t length, const char *path, unsigned line)
{
	if (piece == PIECE_OPEN)
		return error_set(-EINVAL, "%s:%u: the %s that begins in this line is never closed: add '%.2s'", path,
				 line, *text == '/' ? "comment" : "text",
				 *text == '/' ? "*/" :
				 *text == '"' ? "\"" :
						"'");
	if (piece != PIECE_COMMENT && memchr(text, '$', length))
		return error_set(-EINVAL, "%s:%u: there is a '$', but variables are not expanded here: write the value",
				 path, line);
	return 0;
}

/* Returns the number of newlines in the text. blank: also replaces all other bytes by spaces. */
static unsigned lines_count(char *text, size_t length, bool blank)
{
	unsigned lines = 0;

	for (size_t i = 0; i < length; i++) {
		lines += text[i] == '\n';
		if (blank && text[i] != '\n')
			text[i] = ' ';
	}
	return lines;
}

/*
 * Works around faults of libconfuse 3.3. libconfuse counts the lines of a comment three times, so comments are
 * replaced by spaces. libconfuse accepts the end of the file as a closing brace, and as the end of a comment, so both
 * are refused here. libconfuse expands ${VARIABLES}, so a '$' outside comments is refused.
 */
static int text_prepare(char *text, const char *path)
{
	unsigned line = 1, opened = 0, depth = 0;
	size_t length;

	for (; *text; text += length) {
		enum piece piece = piece_measure(text, &length);
		int error = piece_check(piece, text, length, path, line);

		if (error)
			return error;
		if (*text == '{' && !depth++)
			opened = line;
		if (*text == '}' && depth)
			depth--;
		line += lines_count(text, length, piece == PIECE_COMMENT);
	}
	return depth ? error_set(-EINVAL, "%s:%u: the '{' of this line is never closed: add '}'", path, opened) : 0;
}

static int text_read(FILE *file, char **text)
{
	size_t length;

	*text = malloc(TEXT_MAX + 1);
	if (!*text)
		return error_set(-ENOMEM, "out of memory");
	length = fread(*text, 1, TEXT_MAX + 1, file);
	if (ferror(file))
		return error_set(-EINVAL, "%s cannot be read: %m", reading->path);
	if (length > TEXT_MAX || memchr(*text, 0, length))
		return error_set(-EINVAL, "%s:1: this is no %s: it is larger than %u bytes, or not text", reading->path,
				 reading->kind, TEXT_MAX);
	(*text)[length] = 0;
	return text_prepare(*text, reading->path);
}

static int text_parse(cfg_t *cfg, const char *text)
{
	refused = false;
	cfg_set_error_function(cfg, on_error);
	if (cfg_parse_buf(cfg, text) == CFG_SUCCESS)
		return 0;
	/* if a name is an empty word, libconfuse 3.3 fails without calling on_error() */
	return refused ? -EINVAL : error_set(-EINVAL, "%s:%d: '' is no name of anything: %s", reading->path, cfg->line,
						reading->manual);
}

int config_text_load(const struct config_file *file, cfg_t *cfg)
{
	FILE *stream = fopen(file->path, "re");
	char *text = NULL;
	int error;

	if (!stream)
		return error_set(errno == ENOENT ? -ENOENT : -EINVAL, "%s cannot be read: %m", file->path);
	reading = file;
	error = text_read(stream, &text);
	fclose(stream);
	if (!error)
		error = text_parse(cfg, text);
	if (!error && file->text)
		*file->text = text;
	else
		free(text);
	return error;
}

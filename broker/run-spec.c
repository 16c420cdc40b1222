/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run-spec.c - buffers declared in a file, read with libconfuse:
 *
 *     buffer "field/u" { size = "64M"  device = 0  mode = "0600"  timeline = false }
 *
 * Owns nothing. The first error ends the reading; its sentence begins with FILE:LINE.
 */
#include "run-options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <confuse.h>

#include "common/error.h"
#include "common/size.h"
#include "device/device.h"
#include "gpubroker.h"

/* libconfuse goes on after an error; the first one is the cause. */
static _Thread_local bool complained;
static _Thread_local const char *reading; /* the file */
static _Thread_local struct run_options *filling;

#define MANUAL "see broker-run(1), Spec files"

/* What libconfuse says, by its format, and what to do about it in our words; the arguments are the same. */
static const struct {
	const char *format, *mended;
} sentences[] = {
	{ "no such option '%s'", "'%s' is unknown: write buffer \"NAME\" { ... }, in it size, device, mode, timeline" },
	{ "found duplicate title '%s'", "the buffer '%s' is declared twice: keep one" },
	{ "missing title for section '%s'", "this %s has no name: write buffer \"NAME\" { ... }" },
	{ "missing opening brace for section '%s'", "this %s has no '{' behind its name: add it" },
	{ "missing equal sign after option '%s'", "'%s' has no value: write a '=' and the value behind it" },
	{ "attempt to append to non-list option '%s'", "'%s' has one value: write '=' instead of '+='" },
	{ "invalid integer value for option '%s'", "the value of '%s' is no number: give one such as 0" },
	{ "integer value for option '%s' is out of range", "the value of '%s' is too large: give a number such as 0" },
	{ "invalid boolean value for option '%s'", "the value of '%s' is neither true nor false" },
	{ "unexpected closing brace", "there is a '}' without a '{': remove it, or add what it closes" },
	{ "premature end of file", "the file ends in the middle of a buffer: add what is missing; " MANUAL },
	{ "unexpected token '%s'", "'%s' cannot stand here: " MANUAL },
	{ "invalid octal number '%s'", "'%s' is no character: write it as it is, without the backslash" },
	{ "bad escape sequence '%s'", "'%s' is no character: write it as it is, without the backslash" },
};

#define SENTENCES (sizeof sentences / sizeof sentences[0])

static const char *sentence_mended(const char *format)
{
	for (size_t i = 0; i < SENTENCES; i++)
		if (!strcmp(sentences[i].format, format))
			return sentences[i].mended;
	return format;
}

static void on_error(cfg_t *cfg, const char *format, va_list args)
{
	char text[240];

	if (complained)
		return;
	complained = true;
	vsnprintf(text, sizeof text, sentence_mended(format), args);
	error_set(-EINVAL, "%s:%d: %s", reading, cfg ? cfg->line : 1, text);
}

/* ---- the text ---- */

#define SPEC_MAX (1u << 20) /* bytes of a file */

enum token { TOKEN_OTHER, TOKEN_COMMENT, TOKEN_STRING, TOKEN_OPEN /* its end is missing */ };

static enum token comment_measure(const char *text, size_t *length)
{
	const char *end;

	*length = strcspn(text, "\n");
	if (*text != '/' || text[1] != '*')
		return TOKEN_COMMENT;
	end = strstr(text + 2, "*/");
	*length = end ? (size_t)(end + 2 - text) : strlen(text);
	return end ? TOKEN_COMMENT : TOKEN_OPEN;
}

static enum token string_measure(const char *text, size_t *length)
{
	const char *end = text + 1;

	while (*end && *end != *text)
		end += *end == '\\' && end[1] ? 2 : 1;
	*length = (size_t)(end - text) + (*end != 0);
	return *end ? TOKEN_STRING : TOKEN_OPEN;
}

/* What stands at *text: a comment, a quoted string, or one character of anything else. */
static enum token token_measure(const char *text, size_t *length)
{
	if (*text == '#' || !strncmp(text, "//", 2) || !strncmp(text, "/*", 2))
		return comment_measure(text, length);
	if (*text == '"' || *text == '\'')
		return string_measure(text, length);
	*length = 1;
	return TOKEN_OTHER;
}

/* What libconfuse would let pass, or read otherwise than it stands there. */
static int token_check(enum token token, const char *text, size_t length, const char *path, unsigned line)
{
	if (token == TOKEN_OPEN)
		return error_set(-EINVAL, "%s:%u: the %s that begins in this line is never closed: add '%.2s'", path, line,
				 *text == '/' ? "comment" : "text", *text == '/' ? "*/" : *text == '"' ? "\"" : "'");
	if (token != TOKEN_COMMENT && memchr(text, '$', length))
		return error_set(-EINVAL, "%s:%u: there is a '$', but variables are not expanded here: write the value",
				 path, line);
	return 0;
}

static unsigned lines_pass(char *text, size_t length, bool blank)
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
 * libconfuse 3.3 counts the lines of comments three times, so they become spaces; it takes the end of the file for a
 * closing brace, so those are counted here, and for the end of a comment; and it expands ${VARIABLES}.
 */
static int text_prepare(char *text, const char *path)
{
	unsigned line = 1, opened = 0, depth = 0;
	size_t length;

	for (; *text; text += length) {
		enum token token = token_measure(text, &length);
		int error = token_check(token, text, length, path, line);

		if (error)
			return error;
		if (*text == '{' && !depth++)
			opened = line;
		if (*text == '}' && depth)
			depth--;
		line += lines_pass(text, length, token == TOKEN_COMMENT);
	}
	return depth ? error_set(-EINVAL, "%s:%u: the '{' of this line is never closed: add '}'", path, opened) : 0;
}

static int text_read(const char *path, char **text)
{
	FILE *file = fopen(path, "re");
	size_t length;
	int error = 0;

	if (!file)
		return error_set(-EINVAL, "%s cannot be read: %m", path);
	*text = malloc(SPEC_MAX + 1);
	if (!*text) {
		fclose(file);
		return error_set(-ENOMEM, "out of memory");
	}
	length = fread(*text, 1, SPEC_MAX + 1, file);
	if (ferror(file))
		error = error_set(-EINVAL, "%s cannot be read: %m", path);
	else if (length > SPEC_MAX || memchr(*text, 0, length))
		error = error_set(-EINVAL, "%s:1: this is no spec file: it is larger than %u bytes, or not text", path,
				  SPEC_MAX);
	fclose(file);
	if (!error) {
		(*text)[length] = 0;
		error = text_prepare(*text, path);
	}
	if (error)
		free(*text);
	return error;
}

/* ---- what it says ---- */

static int take_mode(const char *text, unsigned *mode)
{
	char *end;
	unsigned long value = strtoul(text, &end, 8);

	if (*text < '0' || *text > '7' || *end || value > 0777)
		return error_set(-EINVAL, "'%.20s' is no mode: write it in octal, such as 0640", text);
	*mode = (unsigned)value;
	return 0;
}

static int take_buffer(cfg_t *section, struct declared_buffer *buffer)
{
	const char *name = cfg_title(section), *size = cfg_getstr(section, "size");
	long device = cfg_getint(section, "device");
	int error = name_check(name);

	if (error)
		return error;
	snprintf(buffer->name, sizeof buffer->name, "%s", name);
	if (!size)
		return error_set(-EINVAL, "the buffer '%s' has no size: add size = \"64M\"", name);
	if (device < 0 || device >= DEVICE_MAX)
		return error_set(-EINVAL, "device = %ld: give a number from 0 to %d", device, DEVICE_MAX - 1);
	buffer->device = (unsigned)device;
	buffer->flags = cfg_getbool(section, "timeline") ? GPUB_TIMELINE : 0;
	error = size_parse(size, &buffer->size);
	return error ? error : take_mode(cfg_getstr(section, "mode"), &buffer->mode);
}

/* Called at the section's closing brace, so that the line is the section's own. */
static int on_buffer(cfg_t *cfg, cfg_opt_t *opt)
{
	cfg_t *section = cfg_opt_getnsec(opt, cfg_opt_size(opt) - 1);
	struct declared_buffer buffer = { 0 };
	int error = take_buffer(section, &buffer);

	buffer.file = reading;
	buffer.line = (unsigned)section->line;
	if (!error)
		error = run_options_add(filling, &buffer);
	if (!error)
		return 0;
	cfg_error(cfg, "%s", error_text());
	return -1;
}

static int parse(struct run_options *options, cfg_t *cfg, const char *path, const char *text)
{
	complained = false;
	reading = path;
	filling = options;
	cfg_set_error_function(cfg, on_error);
	cfg_set_validate_func(cfg, "buffer", on_buffer);
	if (cfg_parse_buf(cfg, text) == CFG_SUCCESS)
		return 0;
	/* libconfuse 3.3 refuses an empty word where a name must stand, and says nothing */
	return complained ? -EINVAL : error_set(-EINVAL, "%s:%d: '' is no name of anything: " MANUAL, path, cfg->line);
}

int run_spec_read(struct run_options *options, const char *path)
{
	cfg_opt_t buffer_options[] = { CFG_STR("size", NULL, CFGF_NODEFAULT), CFG_INT("device", 0, CFGF_NONE),
				       CFG_STR("mode", "0600", CFGF_NONE),
				       CFG_BOOL("timeline", cfg_false, CFGF_NONE), CFG_END() };
	cfg_opt_t file_options[] = { CFG_SEC("buffer", buffer_options,
					     CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES),
				     CFG_END() };
	cfg_t *cfg;
	char *text;
	int error = text_read(path, &text);

	if (error)
		return error;
	cfg = cfg_init(file_options, CFGF_NONE);
	error = cfg ? parse(options, cfg, path, text) : error_set(-ENOMEM, "out of memory");
	cfg_free(cfg);
	free(text);
	return error;
}

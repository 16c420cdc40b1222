/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config-text.h - reads files in libconfuse's language; the first mistake gives one error message that begins with FILE:LINE.
 *
 * Refuses what libconfuse would accept by mistake, and replaces its messages by ours. Reads spec files (run/spec.c) and
 * brokerd's configuration (daemon/configuration.c). Owns nothing, and knows no key.
 */
#ifndef GPUB_CONFIG_TEXT_H
#define GPUB_CONFIG_TEXT_H

#include <confuse.h>

/* A message of libconfuse's, by its format, and ours in its place; the arguments are the same. */
struct config_message {
	const char *theirs, *ours;
};

struct config_file {
	const char                  *path;
	const char                  *kind;     /* for people: "spec file" */
	const char                  *manual;   /* "see PAGE(N)" */
	const struct config_message *messages; /* for files of this kind; the last one is empty */
};

/*
 * Reads the file through cfg, whose validate functions get the values. The first error is the one that is reported. -ENOENT:
 * there is no such file; -EINVAL, -ENOMEM; always with the error message.
 */
int config_text_load(const struct config_file *file, cfg_t *cfg);

/* For validate functions to return: the thread's error message becomes the file's, with the line that is read. */
int config_text_refuse(cfg_t *cfg);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config-text.h - files in libconfuse's language, read so that what is wrong is one sentence, beginning with FILE:LINE.
 *
 * What libconfuse would let pass, or read otherwise than it stands there, is refused; what it complains of is said in
 * our words. Spec files (run/spec.c) and brokerd's configuration (daemon/configuration.c) are read through it. Owns
 * nothing, and knows no key.
 */
#ifndef GPUB_CONFIG_TEXT_H
#define GPUB_CONFIG_TEXT_H

#include <confuse.h>

/* What libconfuse says, by its format, and what to say instead; the arguments are the same. */
struct config_sentence {
	const char *format, *mended;
};

struct config_file {
	const char                   *path;
	const char                   *kind;      /* for people: "spec file" */
	const char                   *manual;    /* "see PAGE(N)" */
	const struct config_sentence *sentences; /* of its kind alone; the last one is empty */
};

/*
 * Reads the file through cfg, whose validate functions see what it says. The first error ends the reading. -ENOENT:
 * there is no such file; -EINVAL, -ENOMEM; always with the sentence.
 */
int config_text_load(const struct config_file *file, cfg_t *cfg);

/* For validate functions to return: the thread's sentence is the file's error, in the line that is read. */
int config_text_refuse(cfg_t *cfg);

#endif

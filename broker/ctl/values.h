/* SPDX-License-Identifier: Apache-2.0 */
/*
 * values.h - what people write on broker-ctl's command line: modes, users, times, rights. Owns nothing. All return
 * 0, or -EINVAL with the sentence set and outputs untouched.
 */
#ifndef GPUB_CTL_VALUES_H
#define GPUB_CTL_VALUES_H

#include <stdint.h>

/* What chmod(1) is told: a new mode, or how to make it from the old one. */
struct mode_change {
	unsigned keep, set; /* the new mode is the old one's bits in keep, and set */
};

/* "0640", or "g+r,o-w,u=rw". */
int value_mode_change(const char *text, struct mode_change *change);

/* "0640" alone. */
int value_mode(const char *text, unsigned *mode);

/* A user's name, or a number. */
int value_user(const char *text, uint32_t *uid);

/* "USER", "USER:GROUP", ":GROUP"; what is not given is GPUB_KEEP. */
int value_owner(const char *text, uint32_t *uid, uint32_t *gid);

/* "5", "1.5", "30s", "5m", "2h", "1d" in milliseconds, up to that many. */
int value_time(const char *text, uint64_t most_ms, uint64_t *ms);

/* "r", "w", "rw": GPUB_READ, GPUB_WRITE. */
int value_rights(const char *text, unsigned *rights);

/* "64M" or "64M@1". */
int value_size(const char *text, uint64_t *size, unsigned *device);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* values.h - parses values of broker-ctl's options: changes of modes, owners, times, rights. Owns nothing. */
#ifndef GPUB_CTL_VALUES_H
#define GPUB_CTL_VALUES_H

#include <stdint.h>

#include "broker/base/values.h"

/*
 * A change of permission bits, as chmod(1) makes it: the new mode is (old mode & keep) | set. keep 0: the old mode does
 * not matter.
 */
struct mode_change {
	unsigned keep, set;
};

struct owner {
	uint32_t user, group; /* uid and gid; GPUB_KEEP: not given, so not changed */
};

taker take_mode_change;  /* struct mode_change: "0640", or "g+r,o-w,u=rw" */
taker take_owner;        /* struct owner: "USER", "USER:GROUP", ":GROUP" */
taker take_milliseconds; /* int: "5", "1.5", "30s", "5m", "2h", "1d" */
taker take_since;        /* uint64_t, in milliseconds: a time as for take_milliseconds */
taker take_lifetime;     /* uint64_t, in milliseconds: a time as for take_milliseconds, or "forever", which is 0 */
taker take_rights;       /* unsigned, GPUB_READ | GPUB_WRITE: "r", "w" or "rw" */
taker take_session;      /* uint64_t: id of a session */

#endif

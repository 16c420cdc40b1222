/* SPDX-License-Identifier: Apache-2.0 */
/*
 * values.h - values that only broker-ctl's command line has: changes of modes, owners, times, rights. Owns nothing.
 */
#ifndef GPUB_CTL_VALUES_H
#define GPUB_CTL_VALUES_H

#include <stdint.h>

#include "broker/base/values.h"

/* As for chmod(1): a new mode, or how to make it from the old one. */
struct mode_change {
	unsigned keep, set; /* the new mode is the old one's bits in keep, and set */
};

struct owner {
	uint32_t user, group; /* GPUB_KEEP where not given */
};

taker take_mode_change;  /* struct mode_change: "0640", or "g+r,o-w,u=rw" */
taker take_owner;        /* struct owner: "USER", "USER:GROUP", ":GROUP" */
taker take_milliseconds; /* int: "5", "1.5", "30s", "5m", "2h", "1d" */
taker take_since;        /* uint64_t, in milliseconds: the same */
taker take_lifetime;     /* uint64_t, in milliseconds: the same, or "forever", which is 0 */
taker take_rights;       /* unsigned: "r", "w", "rw": GPUB_READ, GPUB_WRITE */
taker take_session;      /* uint64_t: its number */

#endif

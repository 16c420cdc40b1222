/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner-of-keeper.h - the keeper as the place where owners run (owner/process.h): it forks them for the broker, so an
 * owner outlives the broker that has asked for it.
 *
 * The keeper has a duplicate of the broker's end of the owner's socket, with which the next broker joins the owner.
 * Owns nothing of its own: the sockets are those of the link.
 */
#ifndef GPUB_OWNER_OF_KEEPER_H
#define GPUB_OWNER_OF_KEEPER_H

#include "broker/owner/process.h"

/* open() needs link->line, and link->runs if the keeper has an owner. begin() first ends an owner that runs. */
extern const struct owner_place owner_of_keeper;

#endif

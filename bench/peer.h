/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.h - a program that compares acquiring and releasing a mapped buffer by name with another way to look up a shared
 * resource by name, in turn, in one process and in two at the same time.
 *
 * A peer gives four functions. It is given what helps it: everything is mapped, warm and on tmpfs, and nothing is
 * written to it while it is timed.
 */
#ifndef GPUB_BENCH_PEER_H
#define GPUB_BENCH_PEER_H

#ifdef __cplusplus
extern "C" {
#endif

#define PEER_NAMES 1000

struct peer {
	const char *name;                      /* of the lines: "peer-NAME", "peer-NAME-2" */
	/* once, before the clients: puts PEER_NAMES names (clients_name()) there */
	void      (*make)(const char *folder);
	void      (*open)(const char *folder); /* in each client */
	void      (*round)(const char *name);  /* acquires and releases it */
	void      (*close)(void);              /* once, behind the clients */
	unsigned    rounds;                    /* a sample */
};

/* What main() returns. */
int peer_main(const struct peer *peer);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * configuration.h - reads brokerd.conf(5) into one object with its own memory, complete and checked, or into none.
 *
 * One table has every key: its section, its type, and whether a reload can change it. The object owns the lists
 * that the broker's configuration in it points to, so it must live as long as the broker uses them. Opens no socket, starts
 * nothing; looks up users and groups.
 */
#ifndef GPUB_BROKERD_CONFIG_H
#define GPUB_BROKERD_CONFIG_H

#include <sys/types.h>
#include <sys/un.h>

#include "broker/core/broker.h"
#include "broker/base/log.h"

#define BROKERD_CONFIG_FILE SYSCONFDIR "/gpubroker/brokerd.conf"
#define BROKERD_NO_GROUP    ((gid_t)-1) /* the broker's own */

struct id_list {
	id_t    *ids;
	unsigned count;
};

struct brokerd_config {
	char                 socket[sizeof(((struct sockaddr_un *)0)->sun_path)];
	gid_t                group; /* of the socket and of the status file */
	mode_t               mode;  /* of the socket */
	unsigned             drain_seconds;
	enum log_level       log;
	struct broker_config broker; /* points into what follows */
	struct user_quota   *quotas;
	struct id_list       users, groups; /* who may create */
};

/*
 * Reads the file; path NULL: the defaults. -ENOENT: there is no such file; -EINVAL: the error message begins with
 * FILE:LINE; -ENOMEM. *config is set only on success.
 */
int brokerd_config_read(struct brokerd_config **config, const char *path);

/* Sets a key outside of sections, as if it were in the file; without FILE:LINE in the error message. */
int brokerd_config_set(struct brokerd_config *config, const char *key, const char *value);

/*
 * For a reload: copies from old what a running broker cannot change. Writes the names of the keys that differed into text,
 * separated by ", "; empty if none did.
 */
#define BROKERD_KEYS_TEXT 160
void brokerd_config_keep(struct brokerd_config *config, const struct brokerd_config *old, char text[BROKERD_KEYS_TEXT]);

void brokerd_config_free(struct brokerd_config *config);

#endif

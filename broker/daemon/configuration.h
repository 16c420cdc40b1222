/* SPDX-License-Identifier: Apache-2.0 */
/*
 * configuration.h - reads brokerd.conf(5) into one configuration object: a complete and checked one, or none.
 *
 * One table has every key: its section, its type, and whether a reload can change it. The object owns the lists that
 * its member broker points to, so the object must live as long as the broker uses the lists. Looks up users and
 * groups. Opens no socket, starts nothing.
 */
#ifndef GPUB_BROKERD_CONFIG_H
#define GPUB_BROKERD_CONFIG_H

#include <sys/types.h>
#include <sys/un.h>

#include "broker/core/broker.h"
#include "broker/base/log.h"

#define BROKERD_CONFIG_FILE SYSCONFDIR "/gpubroker/brokerd.conf"
#define BROKERD_NO_GROUP    ((gid_t)-1) /* no group is configured: files keep the broker's own group */

struct id_list {
	id_t    *ids;
	unsigned count;
};

struct brokerd_config {
	char                 socket[sizeof(((struct sockaddr_un *)0)->sun_path)];
	/* group of the socket and of the status file; BROKERD_NO_GROUP: none is configured */
	gid_t                group;
	mode_t               mode;  /* permission bits of the socket */
	unsigned             drain_seconds;
	enum log_level       log;
	struct broker_config broker; /* configuration of the broker; its quotas and creators point to the lists below */
	char                *text;   /* of the file; NULL: there is none */
	struct user_quota   *quotas;
	struct id_list       users;  /* users who may create buffers */
	struct id_list       groups; /* groups whose members may create buffers */
};

/*
 * Reads the file at path, or only sets the defaults if path is NULL. Returns 0 and sets *config, which
 * brokerd_config_free() frees. Or returns negative errno with the error message: -ENOENT: there is no such file;
 * -EINVAL: the file cannot be read, or it has an error, and then the message begins with FILE:LINE; -ENOMEM.
 */
int brokerd_config_read(struct brokerd_config **config, const char *path);

/*
 * Sets the key, which is outside of all sections, to the value. Returns 0, or negative errno with a message that has no
 * FILE:LINE.
 */
int brokerd_config_set(struct brokerd_config *config, const char *key, const char *value);

/*
 * Called for a reload: replaces the values in `config` that a running broker cannot change by those of `old`. Writes
 * the names of the keys whose values differed into text, separated by ", ". text is empty if none differed.
 */
#define BROKERD_KEYS_TEXT 160
void brokerd_config_keep(struct brokerd_config *config, const struct brokerd_config *old, char text[BROKERD_KEYS_TEXT]);

/*
 * Returns a descriptor of memory with the text of the configuration's file, for brokerd_options_load_shared(); or a
 * negative errno with the error message set.
 */
int brokerd_config_share(const struct brokerd_config *config);

void brokerd_config_free(struct brokerd_config *config);

#endif

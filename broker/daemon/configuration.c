/* SPDX-License-Identifier: Apache-2.0 */
/* configuration.c - see configuration.h */
#include "configuration.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "broker/base/config-text.h"
#include "broker/base/log.h"
#include "broker/base/values.h"
#include "broker/core/broker.h"
#include "broker/registry/registry.h"
#include "broker/users/accounting.h"
#include "common/board.h"
#include "common/error.h"
#include "common/size.h"

#define UNSET       (UINT64_MAX - 1) /* stands for a limit that the section of the quota does not set */
#define DRAIN_MAX   86400u           /* largest drain_timeout in seconds */
#define SESSIONS    1024             /* default quota: largest number of sessions */
#define TICKETS     1024             /* default quota: largest number of tickets that can be redeemed once */
#define QUEUED      (16ull << 20)    /* default quota: largest number of bytes of unread messages */
#define SECTION_MAX 16               /* largest number of keys in a section, counting the end of the array */

/* ---- values ---- */

static int take_socket(void *field, const char *value)
{
	const struct brokerd_config *config = NULL;

	if (*value != '/' || !value[1] || value[strlen(value) - 1] == '/')
		return error_set(-EINVAL,
				 "'%.60s' is no place for the socket: write the path of a file, from the root, such as "
				 "/run/gpubroker/socket",
				 value);
	if (strlen(value) >= sizeof config->socket)
		return error_set(-EINVAL, "the socket's path is longer than %zu bytes: choose a shorter one",
				 sizeof config->socket - 1);
	memset(field, 0, sizeof config->socket);
	memcpy(field, value, strlen(value));
	return 0;
}

/* Parses "30s", "5m", "1h", or a number of seconds, into an unsigned. */
static int take_seconds(void *field, const char *value)
{
	size_t digits = strspn(value, "0123456789");
	const char *unit = value + digits;
	unsigned long scale = *unit == 'h' ? 3600 : *unit == 'm' ? 60 : 1, number = strtoul(value, NULL, 10);

	if (!digits || digits > 5 || (*unit && (!strchr("smh", *unit) || unit[1])) || number * scale > DRAIN_MAX)
		return error_set(-EINVAL, "'%.40s' is no time: write seconds, or a number with s, m or h, such as 30s; "
					  "at most 24h", value);
	*(unsigned *)field = (unsigned)(number * scale);
	return 0;
}

static int take_limit(void *field, const char *value)
{
	*(uint64_t *)field = QUOTA_NONE;
	if (!strcmp(value, "none"))
		return 0;
	if (number_parse(value, "limit", 0, UNSET - 1, field))
		return error_set(-EINVAL, "'%.40s' is no limit: write a number, or none", value);
	return 0;
}

static int take_bytes(void *field, const char *value)
{
	*(uint64_t *)field = QUOTA_NONE;
	if (!strcmp(value, "none"))
		return 0;
	if (size_parse_or_0(value, field))
		return error_set(-EINVAL, "'%.40s' is no limit: write bytes, a number with K, M or G, such as 64G, or "
					  "none", value);
	return 0;
}

/* Parses a limit of requests a second. 0 is refused, because the user would wait for ever. */
static int take_rate(void *field, const char *value)
{
	int error = take_limit(field, value);

	if (!error && !*(uint64_t *)field)
		return error_set(-EINVAL, "0 requests a second would keep the user waiting for ever: write at least 1, "
					  "or none");
	return error;
}

/* ---- the keys ---- */

struct key {
	const char       *section, *name; /* section NULL: the key is outside of all sections */
	struct value_type type;
	/* offset and size of the key's field in struct brokerd_config or, for a key of a quota, in struct quota */
	size_t            offset, size;
	/*
	 * RELOADED: a reload changes the value; RESTART: only a restart changes it; LIST: several values, which a
	 * reload changes
	 */
	enum { RELOADED, RESTART, LIST } kind;
};

static const char *const log_levels[] = { "quiet", "normal", "verbose", NULL }; /* in the order of enum log_level */
static const char *const trusted[] = { "owner", "nobody", NULL };               /* in the order of enum trust */

#define FIELD(field) \
	.offset = offsetof(struct brokerd_config, field), .size = sizeof(((struct brokerd_config *)0)->field)
#define LIMIT(field) .offset = offsetof(struct quota, field), .size = sizeof(uint64_t)

static const struct key keys[] = {
	{ NULL, "socket", VALUE(take_socket), FIELD(socket), RESTART },
	{ NULL, "group", VALUE(take_group), FIELD(group), RESTART },
	{ NULL, "mode", VALUE(take_mode), FIELD(mode), RESTART },
	{ NULL, "instance", VALUE(take_instance), FIELD(broker.instance), RESTART },
	{ NULL, "device", VALUE(take_device), FIELD(broker.device), RESTART },
	{ NULL, "poll", VALUE_POLL, FIELD(broker.poll_us), RESTART },
	{ NULL, "export", VALUE(take_export), FIELD(broker.exported), RESTART },
	{ NULL, "pool", VALUE(take_size_or_0), FIELD(broker.pool), RELOADED },
	{ NULL, "trust", WORD(trusted, "owner or nobody"), FIELD(broker.trust), RESTART },
	{ NULL, "log", WORD(log_levels, "quiet, normal or verbose"), FIELD(log), RELOADED },
	{ NULL, "drain_timeout", VALUE(take_seconds), FIELD(drain_seconds), RELOADED },
	{ "board", "buffers", VALUE_BUFFERS, FIELD(broker.buffers), RESTART },
	{ "board", "mappings", VALUE_MAPPINGS, FIELD(broker.handles), RESTART },
	{ "creators", "users", VALUE(take_user), FIELD(users), LIST },
	{ "creators", "groups", VALUE(take_group), FIELD(groups), LIST },
	{ "quota", "bytes", VALUE(take_bytes), LIMIT(limit[RESOURCE_BYTES]), RELOADED },
	{ "quota", "buffers", VALUE(take_limit), LIMIT(limit[RESOURCE_BUFFERS]), RELOADED },
	{ "quota", "sessions", VALUE(take_limit), LIMIT(limit[RESOURCE_SESSIONS]), RELOADED },
	{ "quota", "grants", VALUE(take_limit), LIMIT(limit[RESOURCE_GRANTS]), RELOADED },
	{ "quota", "mappings", VALUE(take_limit), LIMIT(limit[RESOURCE_MAPPINGS]), RELOADED },
	{ "quota", "tickets", VALUE(take_limit), LIMIT(limit[RESOURCE_TICKETS]), RELOADED },
	{ "quota", "greetings", VALUE(take_limit), LIMIT(limit[RESOURCE_GREETINGS]), RELOADED },
	{ "quota", "waits", VALUE(take_limit), LIMIT(limit[RESOURCE_WAITS]), RELOADED },
	{ "quota", "descriptors", VALUE(take_limit), LIMIT(limit[RESOURCE_DESCRIPTORS]), RELOADED },
	{ "quota", "queued", VALUE(take_bytes), LIMIT(limit[RESOURCE_QUEUED]), RELOADED },
	{ "quota", "requests", VALUE(take_rate), LIMIT(requests), RELOADED },
};

#define KEYS (sizeof keys / sizeof keys[0])

static bool section_is(const struct key *key, const char *section)
{
	return !section ? !key->section : key->section && !strcmp(key->section, section);
}

/* Returns the key with this section and name, which must be in the table. */
static const struct key *key_find(const char *section, const char *name)
{
	const struct key *key = keys;

	while (!section_is(key, section) || strcmp(key->name, name) != 0)
		key++;
	return key;
}

int brokerd_config_set(struct brokerd_config *config, const char *name, const char *value)
{
	const struct key *key = key_find(NULL, name);

	return value_take(&key->type, (char *)config + key->offset, value);
}

void brokerd_config_keep(struct brokerd_config *config, const struct brokerd_config *old, char text[BROKERD_KEYS_TEXT])
{
	size_t length = 0;

	*text = 0;
	for (const struct key *key = keys; key < keys + KEYS; key++) {
		char *field = (char *)config + key->offset;
		const char *kept = (const char *)old + key->offset;

		if (key->kind != RESTART || !memcmp(field, kept, key->size))
			continue;
		memcpy(field, kept, key->size);
		length += (size_t)snprintf(text + length, BROKERD_KEYS_TEXT - length, "%s%s%s%s", length ? ", " : "",
					   key->section ? key->section : "", key->section ? "." : "", key->name);
	}
}

/* ---- the object ---- */

static struct brokerd_config *config_alloc(void)
{
	struct brokerd_config *config = calloc(1, sizeof *config);

	if (!config)
		return NULL;
	broker_config_init(&config->broker);
	config->broker.several_users = true;
	config->broker.keeps_events = true;
	config->broker.pool = BROKER_POOL;
	config->broker.exported = export_of_environment();
	strcpy(config->broker.instance, "system");
	strcpy(config->socket, "/run/gpubroker/socket");
	config->group = BROKERD_NO_GROUP;
	config->mode = 0666;
	config->log = LOG_NORMAL;
	config->drain_seconds = 30;
	return config;
}

void brokerd_config_free(struct brokerd_config *config)
{
	if (!config)
		return;
	free(config->text);
	free(config->quotas);
	free(config->users.ids);
	free(config->groups.ids);
	free(config);
}

/* ---- the file ---- */

/* State while a file is read, for the callbacks of libconfuse. Limits that are not given are UNSET. */
static _Thread_local struct filling {
	struct brokerd_config *config;
	struct quota           quota;       /* limits of the section `quota` that is being read */
	struct quota           fallback;    /* limits of the section `quota "default"` */
	/* by the index in keys[]: the key was given; for a key of a quota: in the section that is being read */
	bool                   given[KEYS];
} filling;

#define MANUAL "see brokerd.conf(5)"

static const struct config_message messages[] = {
	{ "no such option '%s'", "'%s' is no key here: " MANUAL " for those that are" },
	{ "found duplicate title '%s'", "there are two quotas for \"%s\": keep one" },
	{ "missing title for section '%s'", "this %s is nobody's: write quota \"NAME\" { ... }, or quota \"default\"" },
	{ "missing opening brace for section '%s'", "'%s' is a section: write a '{' behind it" },
	{ "premature end of file", "the file ends in the middle of a key: add what is missing" },
	{ "unexpected token '%s'", "'%s' cannot stand here: " MANUAL },
	{ NULL, NULL },
};

static void quota_clear(struct quota *quota)
{
	for (int i = 0; i < RESOURCES; i++)
		quota->limit[i] = UNSET;
	quota->requests = UNSET;
}

static int list_add(struct id_list *list, id_t id)
{
	id_t *grown = reallocarray(list->ids, list->count + 1, sizeof *grown);

	if (!grown)
		return error_set(-ENOMEM, "out of memory");
	grown[list->count++] = id;
	list->ids = grown;
	return 0;
}

static int given_twice(const struct key *key)
{
	return error_set(-EINVAL, "'%s' is given twice: keep one", key->name);
}

/*
 * Adds new values of a list. libconfuse calls this for each value, with all values so far, and once more at the end of
 * a list in braces that is not empty, which sets *ended. If the key is given twice with '=', the values begin anew,
 * which is refused, unless the first list is empty; with '+=', they go on.
 */
static int list_take(const struct key *key, struct id_list *list, cfg_opt_t *opt, bool *ended)
{
	unsigned count = cfg_opt_size(opt);
	id_t id = 0;

	if (*ended && count != list->count + 1)
		return given_twice(key);
	*ended = count == list->count;
	for (unsigned i = 0; i < count; i++) {
		int error = value_take(&key->type, &id, cfg_opt_getnstr(opt, i));

		if (!error && i < list->count && list->ids[i] != id)
			return given_twice(key);
		if (!error && i == list->count)
			error = list_add(list, id);
		if (error)
			return error;
	}
	return count < list->count ? given_twice(key) : 0;
}

static int option_take(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *section = strcmp(cfg_name(cfg), "root") ? cfg_name(cfg) : NULL;
	const struct key *key = key_find(section, opt->name);
	char *base = section_is(key, "quota") ? (char *)&filling.quota : (char *)filling.config;
	bool *given = &filling.given[key - keys];

	if (key->kind == LIST)
		return list_take(key, (struct id_list *)(base + key->offset), opt, given);
	if (*given)
		return given_twice(key);
	*given = true;
	return value_take(&key->type, base + key->offset, cfg_opt_getstr(opt));
}

static int on_value(cfg_t *cfg, cfg_opt_t *opt)
{
	return option_take(cfg, opt) ? config_text_refuse(cfg) : 0;
}

/* Callback at the end of the section creators. Refuses a second, empty list, which list_take() cannot notice. */
static int on_creators(cfg_t *cfg, cfg_opt_t *opt)
{
	cfg_t *section = cfg_opt_getnsec(opt, 0);
	struct brokerd_config *config = filling.config;

	config->broker.creators.restricted = true;
	if (cfg_size(section, "users") >= config->users.count && cfg_size(section, "groups") >= config->groups.count)
		return 0;
	error_set(-EINVAL, "a list of creators is given twice: keep one");
	return config_text_refuse(cfg);
}

static int quota_add(const char *title)
{
	struct brokerd_config *config = filling.config;
	struct quotas *quotas = &config->broker.quotas;
	struct user_quota *grown;
	id_t uid = 0;
	int error = take_user(&uid, title);

	if (error)
		return error;
	for (unsigned i = 0; i < quotas->count; i++)
		if (config->quotas[i].uid == uid)
			return error_set(-EINVAL, "there are two quotas for user %u, this one as \"%.40s\": keep one",
					 uid, title);
	grown = reallocarray(config->quotas, quotas->count + 1, sizeof *grown);
	if (!grown)
		return error_set(-ENOMEM, "out of memory");
	grown[quotas->count++] = (struct user_quota){ uid, filling.quota };
	config->quotas = grown;
	return 0;
}

/* Callback at the closing brace of a section quota: keeps its limits, and clears them for the next section. */
static int on_quota(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *title = cfg_title(cfg_opt_getnsec(opt, cfg_opt_size(opt) - 1));
	int error = 0;

	if (strcmp(title, "default"))
		error = quota_add(title);
	else
		filling.fallback = filling.quota;
	quota_clear(&filling.quota);
	for (size_t i = 0; i < KEYS; i++)
		if (section_is(&keys[i], "quota"))
			filling.given[i] = false;
	return error ? config_text_refuse(cfg) : 0;
}

/* Sets limits of the quota that are not given to the limits of fallback. */
static void quota_complete(struct quota *quota, const struct quota *fallback)
{
	for (int i = 0; i < RESOURCES; i++)
		if (quota->limit[i] == UNSET)
			quota->limit[i] = fallback->limit[i];
	if (quota->requests == UNSET)
		quota->requests = fallback->requests;
}

/* Sets the default quota: half of the board's places, and limits of sessions, tickets and queued bytes. */
static void quota_of_board(struct quota *quota, const struct broker_config *broker)
{
	quota_init(quota);
	quota->limit[RESOURCE_BUFFERS] = (broker->buffers + 1) / 2;
	quota->limit[RESOURCE_GRANTS] = (broker->handles + 1) / 2;
	quota->limit[RESOURCE_SESSIONS] = SESSIONS;
	quota->limit[RESOURCE_TICKETS] = TICKETS;
	quota->limit[RESOURCE_QUEUED] = QUEUED;
}

static void config_complete(struct brokerd_config *config)
{
	struct quotas *quotas = &config->broker.quotas;
	struct access_list *creators = &config->broker.creators;

	quota_of_board(&quotas->fallback, &config->broker);
	quota_complete(&filling.fallback, &quotas->fallback);
	quotas->fallback = filling.fallback;
	for (unsigned i = 0; i < quotas->count; i++)
		quota_complete(&config->quotas[i].quota, &quotas->fallback);
	quotas->users = config->quotas;
	creators->users = config->users.ids;
	creators->user_count = config->users.count;
	creators->groups = config->groups.ids;
	creators->group_count = config->groups.count;
}

static cfg_opt_t option_of(const struct key *key)
{
	cfg_opt_t text = CFG_STR(key->name, NULL, CFGF_NODEFAULT);
	cfg_opt_t list = CFG_STR_LIST(key->name, NULL, CFGF_NODEFAULT);

	text.validcb = list.validcb = on_value;
	return key->kind == LIST ? list : text;
}

static void section_fill(cfg_opt_t options[SECTION_MAX], const char *section)
{
	for (const struct key *key = keys; key < keys + KEYS; key++)
		if (section_is(key, section))
			*options++ = option_of(key);
	*options = (cfg_opt_t)CFG_END();
}

static int config_load(const char *path, char **text)
{
	const struct config_file file = { path, "configuration", MANUAL, messages, text };
	cfg_opt_t board[SECTION_MAX], creators[SECTION_MAX], quota[SECTION_MAX], own[SECTION_MAX];
	cfg_opt_t sections[] = { CFG_SEC("board", board, CFGF_NONE), CFG_SEC("creators", creators, CFGF_NONE),
				 CFG_SEC("quota", quota, CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES), CFG_END() };
	cfg_opt_t all[SECTION_MAX + sizeof sections / sizeof *sections];
	size_t count = 0;
	cfg_t *cfg;
	int error;

	section_fill(board, "board");
	section_fill(creators, "creators");
	section_fill(quota, "quota");
	section_fill(own, NULL);
	sections[1].validcb = on_creators;
	sections[2].validcb = on_quota;
	while (own[count].name)
		all[count] = own[count], count++;
	memcpy(all + count, sections, sizeof sections);
	cfg = cfg_init(all, CFGF_NONE);
	if (!cfg)
		return error_set(-ENOMEM, "out of memory");
	error = config_text_load(&file, cfg);
	cfg_free(cfg);
	return error;
}

int brokerd_config_read(struct brokerd_config **result, const char *path)
{
	struct brokerd_config *config = config_alloc();
	int error = 0;

	if (!config)
		return error_set(-ENOMEM, "out of memory");
	memset(&filling, 0, sizeof filling);
	filling.config = config;
	quota_clear(&filling.quota);
	quota_clear(&filling.fallback);
	if (path)
		error = config_load(path, &config->text);
	if (error) {
		brokerd_config_free(config);
		return error;
	}
	config_complete(config);
	*result = config;
	return 0;
}

int brokerd_config_share(const struct brokerd_config *config)
{
	const char *text = config->text ? config->text : "";
	int fd = memfd_create("brokerd.conf", MFD_CLOEXEC);
	ssize_t written = fd >= 0 ? write(fd, text, strlen(text)) : -1;

	if (written == (ssize_t)strlen(text))
		return fd;
	if (written >= 0)
		errno = ENOSPC;
	error_set(-errno, "there is no memory for a copy of the configuration: %m");
	if (fd >= 0)
		close(fd);
	return -ENOSPC;
}

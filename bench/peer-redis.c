/* SPDX-License-Identifier: Apache-2.0 */
/* peer-redis.c - Redis over a Unix socket, without persistence: one GET. Counts nothing; a release is free. */
#include <hiredis/hiredis.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "clients.h"
#include "peer.h"

static pid_t server;
static redisContext *redis;

static void server_start(const char *path)
{
	server = fork();
	if (server)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no",
	       "--loglevel", "warning", "--logfile", "/dev/null", NULL);
	_exit(127);
}

static void connect_to(const char *folder)
{
	char path[128];

	snprintf(path, sizeof path, "%s/redis", folder);
	if (!server)
		server_start(path);
	for (int tries = 0; tries < 500; tries++) { /* it takes a moment to listen */
		redis = redisConnectUnix(path);
		if (redis && !redis->err)
			return;
		redisFree(redis);
		if (waitpid(server, NULL, WNOHANG) == server)
			break;
		usleep(10000);
	}
	bench_fail("redis-server does not start");
}

static void command(const char *verb, const char *name)
{
	redisReply *reply = redisCommand(redis, verb, name, strlen(name));

	if (!reply || reply->type == REDIS_REPLY_ERROR || reply->type == REDIS_REPLY_NIL)
		bench_fail("redis: a command failed");
	freeReplyObject(reply);
}

static void make(const char *folder)
{
	char name[CLIENTS_NAME];

	connect_to(folder);
	for (unsigned i = 0; i < PEER_NAMES; i++) {
		clients_name(name, i);
		command("SET %b here", name);
	}
	redisFree(redis);
}

static void round_trip(const char *name)
{
	command("GET %b", name);
}

static void server_stop(void)
{
	kill(server, SIGTERM);
	waitpid(server, NULL, 0);
}

int main(void)
{
	static const struct peer peer = { "redis", make, connect_to, round_trip, server_stop, 50 };

	return peer_main(&peer);
}

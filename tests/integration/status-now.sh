#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# status-now.sh - what a broker did for a client is in its status when the client has its answer: each look is one, and nothing is
# waited for. Names that come and go, mappings, drains, sessions, and brokerd through a reload.
# shellcheck disable=SC2016 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
# shellcheck source=tests/own-brokerd.sh
. "$top_srcdir/tests/own-brokerd.sh"

ctl=${top_builddir:?}/broker/broker-ctl
show=$top_builddir/broker/broker-status
client=$top_builddir/tests/integration/status-client
rounds=40

work=$(mktemp -d) || exit 1
name=now-$$
clients=()
cleanup() {
	[ -n "$broker" ] && kill -KILL "$broker"
	[ ${#clients[@]} -gt 0 ] && kill -KILL "${clients[@]}"
	wait
	rm -rf "$work" /dev/shm/gpubroker."$name"*
} 2>/dev/null
trap cleanup EXIT
cd "$work" || exit 1
chmod 711 .
socket=$work/run/socket
export GPUBROKER=unix:$socket
configure 'quota "default" { buffers = 1000 }'
# shellcheck disable=SC2119 # a start without a command in front
if ! start; then
	echo "Bail out! the broker does not start: $(cat err)"
	exit 1
fi

# look: the status, once
look() {
	"$show" --json "$name" >now 2>look.err
}

has() {
	grep -q -e "$1" now
}

# within SECTION PATTERN: in that array or object of the broker's
within() {
	awk -v section="  \"$1\":" 'index($0, section) == 1 { on = 1; print; next } on && /^  []}]/ { exit } on' now | grep -q -e "$2"
}

# counter KEY: its number
counter() {
	awk -v key="\"$1\":" '$1 == key { sub(",", "", $2); print $2 }' now
}

# each COMMAND...: for as many rounds, $i is which
each() {
	local i
	for ((i = 0; i < rounds; i++)); do
		"$@" || { echo "# round $i: $*"; sed 's/^/# /' now look.err | head -40; return 1; }
	done
}

creates() {
	"$ctl" create --dedicated "x$i" 1K && look && within buffers "\"name\": \"x$i\"" && [ "$(counter buffers_created)" = $((i + 1)) ]
}
changes() {
	"$ctl" chmod 0640 "x$i" && look && [ "$(grep -c '"mode": 416' now)" = $((i + 1)) ]
}
drains() {
	"$ctl" drain "x$i" && look && ! has "\"name\": \"x$i\"" && [ "$(counter buffers_unlinked)" = $((i + 1)) ]
}
refuses() {
	! "$ctl" unlink none 2>/dev/null && look && [ "$(counter refused_no_name)" = $((i + 1)) ]
}

check "a buffer is shown when its create has returned" each creates
check "so is its mode when it has changed" each changes
check "a refusal is counted when it is read" each refuses
check "a buffer is not shown any more when its drain has returned" each drains

# Clients that stay: each says through a file how far it is, which it makes once its calls have returned.
"$ctl" create shared 1M
comes() {
	"$client" acquire shared mark "held$i" wait go 2>client.err </dev/null &
	clients+=($!)
	soon test -e "held$i" && look && within sessions "\"pid\": ${clients[i]}," &&
		[ "$(grep -c '"command": "status-client"' now)" = $((2 * (i + 1))) ] && within buffers "\"grants\": $((i + 1)),"
}
rounds=10
check "a session is shown, and what it maps, when its acquire has returned" each comes
check "a name that is taken away from who maps it is draining" eval \
	'"$ctl" unlink shared && look && within buffers "\"state\": \"draining\"" && within buffers "\"grants\": 10,"'
check "a session that is evicted is shown to be cut off" eval \
	'id=$(awk "/\"session\":/ { sub(\",\", \"\", \$2); print \$2; exit }" now); "$ctl" evict "$id" && look && has "\"cut off\""'

# reloads: the configuration is read again, and the broker has said so
reloads() {
	kill -HUP "$broker"
	soon eval '[ "$(grep -c "is read again" err)" = '$((i + 1))' ]'
}
quotas() {
	configure "quota \"default\" { buffers = $((2000 + i)) }"
	reloads && look && within users "\"buffers\": $((2000 + i)),"
}
check "a quota that a reload brought is shown when the reload is done" each quotas

touch go
for pid in "${clients[@]}"; do
	wait "$pid"
done
clients=()
check "the broker ends balanced" eval 'stops TERM 0 && grep -q "balanced$" err'
plan

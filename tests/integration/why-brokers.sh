#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# why-brokers.sh - broker-status --why where there is more than a broker-run of one's own: a user whose quota is full, a broker in a container
# of its own, several brokers, and wrong usage. why.c has the scenes of programs that hang.
# shellcheck disable=SC2016 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

ctl=${top_builddir:?}/broker/broker-ctl
show=$top_builddir/broker/broker-status
run=$top_builddir/broker/broker-run
client=$top_builddir/tests/integration/status-client
name=why-$$
work=$(mktemp -d) || exit 1
socket=$work/socket
# shellcheck source=tests/own-brokerd.sh
. "${top_srcdir:?}/tests/own-brokerd.sh"
contained='' pipeline=''
cleanup() {
	touch "$work/go"
	[ -z "$pipeline" ] || kill -KILL "$pipeline"
	[ -z "$broker" ] || stops KILL 137
	[ -z "$contained" ] || wait "$contained"
	rm -rf "$work" /dev/shm/gpubroker."$name"*
} 2>/dev/null
trap cleanup EXIT
cd "$work" || exit 1

# says CODE TEXT ARGS...: broker-status --why ARGS prints that, without how long it has lasted, and exits with CODE
says() {
	local code=$1
	printf '%s\n' "$2" >wanted
	shift 2
	"$show" --why "$@" >out 2>&1
	local got=$?
	sed -E 's/^[0-9]+ (s|min|h|d): //; s/knew [0-9]+ s ago/knew N s ago/' out >shown
	diff wanted shown | sed 's/^/# /'
	[ $got = "$code" ] && diff wanted shown >/dev/null
}

# ---- a full quota ----

configure 'quota "default" { buffers = 1 }'
# shellcheck disable=SC2119 # it may be given a command
start || echo "Bail out! no broker"
GPUBROKER=unix:$socket
export GPUBROKER
"$ctl" create one 1M
check "a create over its quota is refused at once" eval '! "$ctl" create two 1M --wait 10s 2>refusal && grep -q "may hold 1 buffer, holds 1" refusal'
check "and the quota is named: nothing waits for it" says 0 "Nothing waits.
user $(id -u) holds 1 of the 1 buffers of its quota: what needs more is refused at once; end some, or raise the quota in brokerd.conf" \
	"$name"
check "not where something else is asked about" says 0 "Nothing waits for one." one "$name"

# ---- usage ----

check "--why with --json: exit 2" eval '"$show" --why --json "$name" 2>refusal; [ $? = 2 ] && grep -q "goes with no other" refusal'
check "two words without --why: exit 2" eval '"$show" one "$name" 2>refusal; [ $? = 2 ]'
check "three words: exit 2" eval '"$show" --why one two three 2>refusal; [ $? = 2 ]'
check "a broker that does not run: exit 1" eval '"$show" --why one no-such-broker 2>refusal; [ $? = 1 ]'
stops TERM 0

# ---- a program that queues its work far ahead: circles of waits at every moment, and no deadlock ----

GPUBROKER_MODULE_PATH=$(cd "$top_builddir/kernels" && pwd) "$run" --quiet --name "$name-p" --device host -n 3 -- \
	"$top_builddir/examples/pipeline/pipeline" 1000000 >pipeline.out 2>&1 &
pipeline=$!
# pid_of RANK
pid_of() {
	"$show" --json "$name-p" >json && awk -v rank="$1" '/^      "pid":/ { pid = $2 + 0 } $0 ~ "^      \"rank\": " rank ",?$" { print pid; exit }' json
}
flows() {
	"$show" --json "$name-p" >json 2>err && grep -q '"acquires_answered": 13' json
}
check "the pipeline runs" soon flows
check "while it goes on, nothing is called a deadlock" eval '"$show" --why "$name-p" >out && ! grep deadlock out'
stopped=$(pid_of 1)
kill -STOP "$stopped"
told() {
	"$show" --why "$name-p" >out && ! grep deadlock out &&
		grep -qE "^[0-9]+ s: rank 2 .*; its writer, rank 0 \(pid [0-9]+\), waits for pipeline/read/1 .*; its writer, rank 1 \(pid $stopped\), is stopped by a signal: kill -CONT $stopped$" out
}
check "a stopped consumer is named, behind the producer that waits for it" soon told
kill -CONT "$stopped"
kill -TERM "$pipeline"
wait "$pipeline"
pipeline=''

# ---- a broker in a container ----

in_container() {
	unshare -p -f -m --mount-proc "$@"
}
if in_container true 2>/dev/null; then
	in_container "$run" --quiet --name "$name-c" --device host -- \
		"$client" create u 1 acquire u unlink u mark ready wait go 2>run.err &
	contained=$!
	soon test -e ready || sed 's/^/# /' run.err
	"$show" --json "$name-c" >json
	check "the numbers of a container's processes are not taken for numbers here" says 0 \
		"The broker '$name-c' runs in another pid namespace, as in a container: it cannot be asked from here, and the numbers of processes are those there. This is what it knew N s ago:
u is unlinked and used by rank 0 (pid $(sed -n 's/^ *"pid": \([0-9]*\),$/\1/p' json | tail -1)), which runs and has not closed it: broker-ctl evict $(sed -n 's/^ *"session": \([0-9]*\),$/\1/p' json | tail -1) --kill ends it" \
		u "$name-c"
	touch go
	wait "$contained"
	contained=''
else
	skip "a broker in a container" "this user may not make a pid namespace"
fi
plan

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# status.sh - broker-status beside real brokers: running, changing, stopped, killed; several, one, none; files that are
# none of a broker's. That it prints nothing secret is held by secrets.sh.
# shellcheck disable=SC2016 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
own_shm

run=${top_builddir:?}/broker/broker-run
show=$top_builddir/broker/broker-status
client=$top_builddir/tests/integration/status-client

work=$(mktemp -d) || exit 1
name=status-$$
long=simulation.with.many/fields/and/a.name/that.is.as.long/as.a.name/may.be/0123456789.012/velocity
broker='' pid=''
cleanup() {
	[ -n "$pid" ] && kill -CONT "$pid" && kill -KILL "$pid"
	touch "$work/churn" "$work/go"
	[ -n "$broker" ] && wait "$broker"
	rm -rf "$work" /dev/shm/gpubroker."$name"*
} 2>/dev/null
trap cleanup EXIT
cd "$work" || exit 1

check_alone() {
	if [ "$OWN_SHM" = yes ]; then
		check "$@"
	else
		skip "$1" "needs a /dev/shm of its own"
	fi
}

# status CODE ARGS...: runs broker-status, leaves out and err; true when it exits with CODE
status() {
	local code=$1
	shift
	"$show" "$@" >out 2>err
	[ $? = "$code" ]
}

has() {
	grep -qe "$1" out
}

# A refusal is one error message on stderr, and nothing else.
refused() {
	status "$@" && [ ! -s out ] && [ "$(wc -l <err)" = 1 ] && grep -q '^broker-status: ' err
}

shows() {
	shows_as 0 "$@"
}
# shows_as CODE PATTERN ARGS...
shows_as() {
	local code=$1 pattern=$2
	shift 2
	status "$code" "$@" && has "$pattern"
}

# terminal COLUMNS ARGS...: runs broker-status on a terminal of that width, leaves out
terminal() {
	local columns=$1
	shift
	script -qec "stty cols $columns rows 24; exec $show $* 2>/dev/null" /dev/null </dev/null | tr -d '\r' >out
}

# narrow ARGS...: on a terminal of 80 columns no line is longer
narrow() {
	terminal 80 "$@"
	[ -s out ] && sed 's/\x1b\[[0-9]*m//g' out | awk 'length > 80 { exit 1 }'
}

# ---- no broker, wrong usage ----

check_alone "no broker: one error message and exit 1" refused 1
check_alone "no broker: JSON is an empty array" eval 'status 1 --list --json && [ "$(cat out)" = "[]" ]'
check "a broker that does not run: one error message and exit 1" refused 1 "$name-none"
check "an unknown option: exit 2" refused 2 --nonsense
check "an unknown letter: exit 2" refused 2 -z
check "two instances: exit 2" refused 2 one two
check "an instance and --list: exit 2" refused 2 --list one
check "a name that no instance may have: exit 2" refused 2 ../../etc/passwd
check "an empty name: exit 2" refused 2 ''
check "--help is on stdout and names each option" eval \
	'status 0 --help && [ ! -s err ] && has --list && has --json && has --counters && has --version'
check "--version is on stdout" eval 'status 0 --version && [ ! -s err ] && has "^broker-status (gpubroker) [0-9]"'
check "output that cannot be written: exit 1" eval '"$show" --help >/dev/full 2>err; [ $? = 1 ]'

# ---- one that runs ----

"$run" --quiet --name "$name" -n 1 --device host:2 -b declared=1M@1 -b gone=3M@1 -- "$client" unlink gone \
	create "$long" 64 create plain 3 acquire plain acquire "$long" unlink plain \
	mark ready wait churn churn busy 3000 mark churned wait go 2>run.err &
broker=$!
if ! soon test -e ready; then
	echo "Bail out! the client does not get ready: $(cat run.err)"
	exit 1
fi
soon eval 'status 0 "$name" && has draining'
# Some lines of the table, as they are: the columns and what fills them.
check "others than the owner's group may not read the file" eval \
	'stat -c %a "/dev/shm/gpubroker.$name" | grep -qx "6[04]0"'
check "the first line says who and how" has "^broker $name: running, pid $broker, status of 20"
check "a buffer has its whole name, size, device, state, owner, age, grants and who holds it" eval \
	'grep -qE "^$long +64M +0 +live +$(id -un) +[0-9]+[smh] +1 +[0-9]+$" out'
check "a declared buffer is there, on its device, and nobody holds it" eval \
	'grep -qE "^declared +1M +1 +live +$(id -un) +[0-9]+[smh] +0$" out'
check "a drain names whom it waits for" eval 'grep -qE "^plain +3M +0 +draining" out &&
	grep -qE "^plain: waits for pid [0-9]+ \(status-client\), which maps it on device 0$" out'
check "a device has what is used of it and kept for later, and what is free" eval \
	'grep -qE "^ +1  host device 1 +[0-9.]+[MG] +1M +3M +[0-9.]+[MG]  [0-9a-f-]{36}$" out'
check "what is kept is told apart on request" eval \
	'status 0 --columns=devices.dev,idle,pooled "$name" && grep -qE "^ +1 +0B +3M$" out && status 0 "$name"'
check "the session has its process, command, rank, state, age, mappings, bytes and buffers" eval \
	'grep -qE "^ +[0-9]+ +[0-9]+ +$(id -un) +status-client +0 +running +[0-9]+[smh] +2 +67M  plain,$long$" out'
check "only counters that counted are shown" eval 'has "2  mappings given" && ! has "mappings ended by"'
check "the table fits 80 columns" narrow "$name"
check "a name that is too long there is cut in its middle" has "^simulation[^ ]*[.][.][.][^ ]*velocity  *64M"
check "all counters are shown on request" eval 'shows "^ *0  mappings ended by" --counters "$name" && narrow --counters "$name"'
check "the list has it" eval 'shows "^$name  *$broker  host  *68M  *3  *1  running  *$(id -un)$" --list && narrow --list'
check_alone "the only broker needs no name" shows "^broker $name: running"
check_alone "the only broker's JSON is an object" eval \
	'shows "\"instance\": \"$name\"" --json && [ "$(head -c 1 out)" = "{" ]'

status 0 --json "$name"
cp out json
check "JSON has the state and the broker" eval \
	'has "^  \"state\": \"running\"," && has "\"trusted\": true" && has "^  \"pid\": $broker,"'
check "JSON has the long name whole" has "\"name\": \"$long\""
check "JSON's list is an array" eval 'status 0 --json --list && [ "$(head -c 1 out)" = "[" ]'
# "SECTION KEY" for each key, where SECTION is the key of the broker's object that it stands in: of the JSON,
json_keys() {
	awk 'match($0, /^ *"[a-z_]*": /) {
		key = $1; gsub(/[":]/, "", key)
		if ($0 ~ /^  "/) section = key
		print section, key }' json | sort -u
}
# and of the man page: all keys, or those that an item of the section is about.
page_keys() {
	awk -v items="${1-}" '
		/^A broker is an object of:/ { on = 1 }
		!on || /^\.S[hs]/ { on = on && !/^\.S[hs]/; next }
		/^\.Bl/ { depth++ }
		/^\.El/ { depth-- }
		/^\.It Cm / && depth == 1 { section = $3 }
		/^\.It Cm / && (!items || depth == 2) { print section, $3 }
		/^\.Cm [a-z_]*( [,;:.]| ,)?$/ && !items { print section, $2 }' "${top_srcdir:?}/man/broker-status.1" | sort -u
}
documented() {
	json_keys | comm -23 - <(page_keys) >undocumented
	sed 's/^/# no such key on the page: /' undocumented
	[ -s json ] && [ ! -s undocumented ]
}
# a layout is where a buffer was created with one, cpus where a process may not run on all: status-json.sh
kept() {
	page_keys items | grep -vx -e 'buffers layout' -e 'sessions cpus' | grep -E '^(devices|buffers|sessions|broker) ' | comm -23 - <(json_keys) >gone
	sed 's/^/# no such key in the JSON: /' gone
	[ ! -s gone ]
}
check "the man page has each key, where it stands" documented
check "and no other of brokers, devices, buffers and sessions" kept
if command -v python3 >/dev/null; then
	check "JSON parses, a broker's and the list" eval \
		'python3 -m json.tool <json >parsed && python3 -m json.tool <out >parsed'
else
	skip "JSON parses, a broker's and the list" "there is no python3 (Debian: python3)"
fi

# ---- while it changes ----

touch churn
whole() {
	local rounds=0
	while [ ! -e churned ] || [ $rounds -lt 20 ]; do
		status 0 --json "$name" && has '"counters"' || return 1
		rounds=$((rounds + 1))
	done
}
check "a status that changes all the time is always whole" whole

# ---- several, and files that are not a broker's ----

"$run" --quiet --name "$name-2" --device host -- sh -c "touch second; while [ ! -e first ]; do sleep 0.02; done" &
second=$!
soon test -e second
check "of several brokers a list is shown" eval 'status 0 && has "^$name " && has "^$name-2 " && has ^INSTANCE'
check "of several brokers JSON is an array" eval 'status 0 --json && [ "$(head -c 1 out)" = "[" ]'
touch first
wait "$second"
check "a broker that ended is gone" refused 1 "$name-2"

bad=/dev/shm/gpubroker.$name-bad
plant() {
	rm -f "$bad"
	case $1 in
	empty) : >"$bad" ;;
	random) head -c 20000 /dev/urandom >"$bad" ;;
	zeros) truncate -s 20000 "$bad" ;;
	truncated) head -c 300 "/dev/shm/gpubroker.$name" >"$bad" ;;
	changed) sed 's/host/hast/g' "/dev/shm/gpubroker.$name" >"$bad" ;;
	link) ln -s "/dev/shm/gpubroker.$name" "$bad" ;;
	pipe) mkfifo "$bad" ;;
	esac
}
for kind in empty random zeros truncated changed link pipe; do
	plant $kind
	check "a status file that is $kind is refused" refused 1 "$name-bad"
done
check "the list shows what can be read beside what cannot" eval \
	'status 0 --list && has "^$name-bad .* unreadable" && has "^$name .* running" && [ -s err ] && narrow --list'
check "so does JSON" eval 'status 0 --list --json && has "\"state\": \"unreadable\"" && has "\"error\": "'
rm -f "$bad"

sed 's/declared/deklared/g' "/dev/shm/gpubroker.$name" >"$bad"
check "a record that was changed is not shown, and said to be unreadable" eval \
	'shows_as 4 "^plain" "$name-bad" && ! has klared && has "damaged: 1 of its records" && narrow "$name-bad"'
check "JSON counts it" shows_as 4 '"unreadable": 1' --json "$name-bad"
head -c 1000 "/dev/shm/gpubroker.$name" >"$bad"
check "so are those behind a file's early end" eval 'shows_as 4 "damaged: [0-9]* of its records" "$name-bad" && narrow "$name-bad"'
rm -f "$bad"

cp "/dev/shm/gpubroker.$name" "$bad"
chmod 666 "$bad"
check "a file that everybody may write is shown with a doubt" eval 'shows_as 4 "anybody.s word" "$name-bad" && narrow "$name-bad"'
check "so it is in the list" shows "anybody.s word" --list
rm -f "$bad"

# ---- stopped, killed ----

process=$(broker_of "$broker")
kill -STOP "$process"
stopped() {
	shows "^broker $name: stopped, pid $broker, status of 20" "$name"
}
check "a stopped broker is shown, and said to be stopped" soon stopped
check "its buffers are still shown" eval 'has "^declared" && has "waits for pid" && has "kill -CONT $process" && narrow "$name"'
check "the list says stopped" shows "^$name .* stopped" --list
check "JSON says stopped" shows '^  "state": "stopped"' --json "$name"
kill -CONT "$process"
check "it goes on" soon shows "^broker $name: running" "$name"

kill -KILL "$broker"
wait "$broker" 2>/dev/null
broker=''
dead() {
	shows_as 4 "^broker $name: dead, pid [0-9]*, status of 20" "$name"
}
check "a killed broker is shown, and said to be dead, also by the exit status" soon dead
check "what it held is still shown" eval 'has "^declared" && has "waits for pid" && narrow "$name"'
check "the list says dead" shows "^$name .* dead" --list
check "JSON says dead" shows_as 4 '^  "state": "dead"' --json "$name"
touch go
check "the next broker removes what it left" eval '"$run" --quiet --device host -- true 2>err && grep -q "$name" err'
check "nothing is left in shared memory" test -z "$(find /dev/shm -name "*$name*")"
check "then it is not there" refused 1 "$name"

plan

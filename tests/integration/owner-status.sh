#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# owner-status.sh - people see the owner of the device memory: broker-status with its JSON, metrics and --why, and broker-ctl doctor,
# say which process it is, which ones died with how many buffers' names, and that another one is starting.
# shellcheck disable=SC2016,SC2034,SC2119 # what a check evaluates expands then, not before; configure takes lines or none
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
# shellcheck source=tests/own-brokerd.sh
. "$top_srcdir/tests/own-brokerd.sh"

ctl=$(cd "${top_builddir:?}" && pwd)/broker/broker-ctl
status=${ctl%-ctl}-status
client=${ctl%/broker/*}/tests/integration/status-client
name=owner-status-$$
memory=/dev/shm/gpubroker.$name.mem
locker=''
own_folder
trap 'own_cleanup $locker' EXIT

# sees QUESTION...: it is true soon; else what was said last is shown
sees() {
	soon "$@" || { sed 's/^/# /' said && return 1; }
}

# table LINE: broker-status has that line
table() {
	timeout 30 "$status" "$name" >said 2>&1
	grep -qxE -e "$1" said
}

# json FACT...: what JSON says of the owner, each as KEY=PATTERN; KEY=: there is no such key
json() {
	local fact
	timeout 30 "$status" --json "$name" >said 2>&1
	sed -n '/^  "memory_owner": {/,/^  }/s/^    "\([a-z_]*\)": "\{0,1\}\([^",]*\)"\{0,1\},\{0,1\}$/\1=\2/p' said >facts
	[ -s facts ] || return 1
	for fact; do
		case $fact in
		*=) ! grep -q "^$fact" facts ;;
		*) grep -qxE -e "$fact" facts ;;
		esac || return 1
	done
}
fact() {
	sed -n "s/^$1=//p" facts
}

# buffers BUFFER...: those are the buffers of JSON, sorted, each as "NAME STATE" and, if its memory has ended, " ended"
buffers() {
	timeout 30 "$status" --json "$name" >said 2>&1
	awk -F '"' '
		/^  "buffers": \[/ { on = 1 }
		/^  \]/ { on = 0 }
		on && /^      "name"/ { name = $4 }
		on && /^      "state"/ { state = $4 }
		on && /^      "ended"/ { print name " " state (/true/ ? " ended" : "") }' said | sort >those
	diff <([ $# = 0 ] || printf '%s\n' "$@") those >/dev/null
}

# metric SAMPLE
metric() {
	timeout 30 "$status" --openmetrics "$name" >said 2>&1
	grep -qxE -e "$1" said
}

# why ABOUT LINE: --why ABOUT, or --why if that is empty, has that line
why() {
	timeout 30 "$status" --why ${1:+"$1"} "$name" >said 2>&1
	grep -qxE -e "$2" said
}

# doctor LINE: it has no fault, and that line
doctor() {
	timeout 30 "$ctl" doctor >said 2>&1 </dev/null && grep -qxE -e "$1" said
}

is_another() {
	owner=$(owner_of "$broker")
	[ -n "$owner" ] && [ "$owner" != "$1" ]
}
serves() {
	soon is_another "$1" && soon eval '[ "$(grep -c "owns the device memory now" err)" = '"$2"' ]'
}

# lock: the next owners find the name of their memory taken until unlock
lock() {
	rm -rf "$memory"
	mkdir "$memory"
	flock --no-fork "$memory" sleep 60 &
	locker=$!
	soon eval '! flock -n "$memory" true'
}
unlock() {
	kill "$locker"
	wait "$locker"
	locker=''
} 2>/dev/null

moment='[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}'
head -c 100000 /dev/urandom >data
export GPUBROKER_EXPORT=ipc
configure
check "a broker starts" start
owner=$(owner_of "$broker")

# ---- one that has not died ----

check "the table says which process owns the memory" sees table "process $owner owns the device memory"
check "and of no one before it" eval '! grep "owner.* ended" said'
check "so does JSON" sees json state=running pid="$owner" died=0 died_pid= died_at= lost= tries=0 'since=[0-9]{10}'
check "the metrics say that one does" sees metric "gpubroker_memory_owner\{broker=\"$name\",state=\"running\"\} 1"
check "and that none has died" eval 'grep -qx "gpubroker_memory_owners_died_total{broker=\"$name\"} 0" said && ! grep "owner_died_timestamp.* " said | grep -v "^#"'
check "the doctor finds it in order" sees doctor "ok: process $owner owns the device memory"
check "and nothing waits" sees why '' 'Nothing waits\.'

# ---- one that died ----

timeout 30 "$ctl" load memory data >said 2>&1
timeout 30 "$ctl" load other data >said 2>&1
timeout 30 "$ctl" load --reserve 1M grows data >said 2>&1
"$client" acquire memory mark held wait end >held.out 2>&1 </dev/null &
holder=$!
soon test -e held
check "while it lives, no buffer's memory has ended" sees buffers "grows live" "memory live" "other live"
before=$owner
kill -KILL "$owner"
check "another owner starts" serves "$before" 1
check "the table has the new one" sees table "process $owner owns the device memory"
check "and that one ended, when, and that two buffers lost their names" sees table \
	"1 owner ended, the last at $moment: 2 buffers lost their names"
check "so has JSON" sees json state=running pid="$owner" died=1 died_pid="$before" lost=2 lost_all=2 'died_at=[0-9]{10}'
check "with the time" eval '[ "$(fact died_at)" -le "$(fact since)" ] && [ "$(fact died_at)" -gt $(($(date +%s) - 120)) ]'
check "the buffer that is held has ended, the one that may grow has not" sees buffers "grows live" "memory draining ended"
check "the metrics count it" sees metric "gpubroker_memory_owners_died_total\{broker=\"$name\"\} 1"
check "and the names, with the time" eval 'grep -qx "gpubroker_names_lost_total{broker=\"$name\"} 2" said &&
	grep -qE "^gpubroker_memory_owner_died_timestamp_seconds[{]broker=\"$name\"[}] [0-9]{10}$" said'
check "the doctor warns of it" sees doctor \
	"warn: 1 owner ended, the last at $moment: 2 buffers lost their names; broker-ctl events says more, .*"
check "--why tells of the buffer that its memory ended" sees why memory \
	"memory is unlinked and used by status-client \(pid $holder\), .*; its memory ended with the process that owned it, and whoever maps it reads on"
timeout 30 "$ctl" drain memory >/dev/null 2>&1
timeout 30 "$ctl" load memory data >said 2>&1
check "a new one of the name has not ended" sees buffers "grows live" "memory draining ended" "memory live"
"$client" acquire memory unlink memory mark held2 wait end >held2.out 2>&1 </dev/null &
other=$!
soon test -e held2
check "nor has one that is unlinked then" sees buffers "grows live" "memory draining" "memory draining ended"
touch end
wait "$holder" "$other" 2>/dev/null
rm -f held held2 end
check "what ended is freed" sees buffers "grows live"

# ---- another one is starting ----

"$client" create later 1 acquire later mark held wait end >held.out 2>&1 </dev/null &
holder=$!
soon test -e held
before=$owner
kill -STOP "$broker"
kill -KILL "$owner"
soon eval '[ -z "$(owner_of "$broker")" ] || grep -q "^State:.Z" /proc/"$owner"/status'
check "the name of its memory is taken" lock
kill -CONT "$broker"
check "those that do not start are counted" sees json state=starting 'tries=([2-9]|10)'
timeout 60 "$ctl" create new 64K >created 2>&1 </dev/null &
creator=$!
timeout 60 "$ctl" drain grows >drained 2>&1 </dev/null &
drainer=$!
check "a create and a drain begin" sees buffers "grows freeing" "later draining ended" "new creating"
doctor_said() {
	timeout 30 "$ctl" doctor >findings 2>&1 </dev/null
}
check "the doctor finds no fault" doctor_said
# there is time for the rest while the broker cannot start another one
kill -STOP "$broker"
gap="no process owns the device memory: creates and drains wait"
check "but warns, and tries no buffer, which would wait" eval 'grep -qE "^warn: $gap; .*" findings && ! grep "buffer was created" findings'
check "the table says that there is none" sees table "$gap"
check "that another one is starting, since when, and how many did not start" \
	grep -qE "^another one is starting since $moment, after [0-9]+ that did not start$" said
check "and that two ended" grep -qE "^2 owners ended, the last at $moment: 1 buffer lost its name$" said
check "JSON says the same" sees json state=starting pid= died=2 died_pid="$before" lost=1 lost_all=3
check "so do the metrics" sees metric "gpubroker_memory_owner\{broker=\"$name\",state=\"starting\"\} 0"
next='waits for the next owner of the device memory, which the broker starts'
check "--why says so" sees why '' \
	"[0-9]+ s: no process owns the device memory, because the last one \(pid $before\) has ended: creates and drains ${next/waits/wait}"
check "and of the create" grep -qE "^[0-9]+ s: the create of new $next$" said
check "also if asked about it" sees why new "[0-9]+ s: the create of new $next"
check "and of the drain" sees why grows \
	"[0-9]+ s: broker-ctl \(pid [0-9]+\) waits for grows to be freed; it is used by nobody: its memory is about to be freed, and that $next"
kill -CONT "$broker"
check "the owner of the name's lock ends" unlock
check "another owner starts" serves "$before" 2
check "what waited is done" eval 'wait "$creator" && wait "$drainer"'
check "the table has the new one" sees table "process $owner owns the device memory"
check "JSON, too" sees json state=running pid="$owner" died=2 lost_all=3
check "nothing waits" sees why '' 'Nothing waits\.'
touch end
wait "$holder" 2>/dev/null
check "all memory is freed" stops TERM 0

# ---- a dead broker ----

printf 'drain_timeout = 60s\n' >>brokerd.conf
start
kill -KILL "$broker"
ended 137 2>/dev/null
check "a dead broker's file names no process: it ended with the broker" eval 'timeout 30 "$status" "$name" >said 2>&1; grep -q "dead, pid" said && ! grep "owns the" said'
plan

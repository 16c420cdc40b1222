#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# view.sh - users of one brokerd, each outside its group: what they are shown of it with broker-ctl and broker-status, what they
# are never shown of each other, and that they manage their own buffers with that. Root alone can be several users.
# shellcheck disable=SC2016 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
# shellcheck source=tests/own-brokerd.sh
. "$top_srcdir/tests/own-brokerd.sh"

ctl=$(cd "${top_builddir:?}" && pwd)/broker/broker-ctl
show=${ctl%-ctl}-status
client=${ctl%/broker/*}/tests/integration/view-client
alice=4001
bob=4002

as() {
	local user=$1
	shift
	setpriv --reuid="$user" --regid="$user" --clear-groups timeout -s KILL 60 "$@" </dev/null
}
if [ "$(id -u)" != 0 ] || ! as $alice test -x "$ctl" -a -x "$client" 2>/dev/null; then
	echo "1..0 # SKIP needs root, and a build that everybody can read"
	exit 0
fi

work=$(mktemp -d /run/gpub-view-XXXXXX) || exit 1
name=view-$$
held=()
cleanup() {
	[ -n "$broker" ] && kill -KILL "$broker"
	[ ${#held[@]} -gt 0 ] && kill -KILL "${held[@]}"
	wait
	rm -rf "$work" /dev/shm/gpubroker."$name"*
} 2>/dev/null
trap cleanup EXIT
cd "$work" || exit 1
chmod 755 .
mkdir -m 777 shared
cp "$client" shared/alices-tool
cp "$client" shared/bobs-tool
socket=$work/socket
export GPUBROKER=unix:$socket
configure 'group = daemon' 'quota "4001" { buffers = 20 }'
# shellcheck disable=SC2119 # a start without a command in front
if ! start; then
	echo "Bail out! the broker does not start: $(cat err)"
	exit 1
fi

# holds USER TOOL WORDS...: a client of that user that stays, once it has done so
holds() {
	local user=$1 tool=$2 mark
	shift 2
	mark=shared/mark-${#held[@]}
	setpriv --reuid="$user" --regid="$user" --clear-groups "shared/$tool" "$@" mark "$mark" wait shared/end 2>client.err </dev/null &
	held+=("$!")
	soon test -e "$mark"
}

# shown USER WHAT...: what broker-ctl shows that user in out; true when it exits with 0
shown() {
	local user=$1
	shift
	as "$user" "$ctl" "$@" >out 2>err
}

has() {
	grep -q -e "$1" out
}

lines() {
	[ "$(wc -l <out)" = "$1" ]
}

# ---- alice and bob, who lends her a buffer, which lies beside another one that he would lend her, too ----

check "bob has buffers, one of which alice may read" holds $bob bobs-tool create bob/secret 600 create bob/lent 604 create bob/unused 604 \
	acquire bob/secret
bobs=${held[-1]}
check "alice has buffers, one of which bob may read, and acquires his" holds $alice alices-tool create alice/own 600 create alice/lent 604 \
	acquire alice/own acquire bob/lent
# shellcheck disable=SC2034 # what a check evaluates uses it
alices=${held[-1]}
check "bob acquires hers" holds $bob bobs-tool acquire alice/lent
# shellcheck disable=SC2034
borrower=${held[-1]}

check "a user is shown its own buffers, and those that its sessions use" eval \
	'shown $alice list && has "^alice/own .*live" && has "^alice/lent " && has "^bob/lent .* 4002 " && lines 4'
check "of those by a pattern" eval 'shown $alice list "alice/*" && has "^alice/own " && has "^alice/lent " && lines 3'
check "none is no failure" eval 'shown $alice list "x*" && lines 1'
check "its sessions, and those that hold its buffers, without their command" eval \
	'shown $alice sessions && has " $alices  4001  *alices-tool  *open " && has " $borrower  *4002  *-  *open " && lines 4'
check "what it has, and may have" eval 'shown $alice quota && has "^4001  *[0-9]*[KM]  *2/20 " && lines 2'
check "all of a buffer, and who holds it" eval \
	'shown $alice stat alice/lent && has "^alice/lent$" && has "^  mode  *0604$" && has "^  held by  *pid $borrower of 4002, session "'
check "no other user's buffer that it does not use, though it is beside one that it does" eval \
	'! shown $alice stat bob/unused && grep -q "you have and use no buffer .bob/unused." err && ! shown $alice stat bob/secret'
check "as JSON with the keys of broker-status" eval \
	'shown $alice list --json && has "\"name\": \"alice/own\"" && has "\"holders\": " && ! has bob/secret &&
	 shown $alice stat alice/lent --json && has "\"uid\": 4002" && has "\"command\": \"\"" &&
	 shown $alice sessions --json && has "\"uid\": 4002" && shown $alice quota --json && has "\"uid\": 4001" && ! has "\"uid\": 4002"'
check "an option of other commands is refused" eval 'as $alice "$ctl" unlink x --json 2>err; [ $? = 2 ] && grep -q "unlink takes no --json" err'

# ---- the very bytes ----

# in_bytes TEXT
in_bytes() {
	grep -qaF -e "$1" shared/raw
}
# raw USER: what that user is shown is in shared/raw, whose owner it is
raw() {
	rm -f shared/raw*
	as "$1" shared/alices-tool raw shared/raw
}
check "what crosses the socket has its own names and the one that it uses" eval \
	'raw $alice && in_bytes alice/own && in_bytes bob/lent && in_bytes alices-tool'
check "and no other name, and no command, of the other user's" eval \
	'! in_bytes bob/secret && ! in_bytes bob/unused && ! in_bytes bobs-tool && [ ! -e shared/raw.all ]'
check "nor a counter, of which each tells of others" eval \
	'as $alice "$show" --json "$name" >out 2>err && ! has "\"counters\"" && ! has "\"waiting\"" &&
	 [ -z "$(dd if=shared/raw bs=1 skip=120 count=392 2>/dev/null | tr -d "\\0")" ]'
check "a user with nothing is shown the devices, and itself" eval \
	'raw 4003 && ! in_bytes alice/ && ! in_bytes bob/ && ! in_bytes bobs-tool && in_bytes "host device"'
check "root is shown everything" eval \
	'raw 0 && in_bytes bob/secret && in_bytes alice/own && in_bytes bobs-tool && [ -e shared/raw.all ]'
rm -f shared/raw*
check "and so is who is in the group of the status file" eval \
	'setpriv --reuid=4003 --regid=4003 --groups="$(getent group daemon | cut -d: -f3)" shared/alices-tool raw shared/raw &&
	 in_bytes bob/secret && [ -e shared/raw.all ]'

# ---- broker-status ----

status() {
	as $alice "$show" "$@" >out 2>err
}
check "broker-status asks the broker for who may not read the file, and says so in its first line" eval \
	'status "$name" && head -n 1 out | grep -q "^Your own objects" && has "^alice/own " && ! has bob/secret && [ ! -s err ]'
check "in JSON, too" eval 'status --json "$name" && has "\"partial\": true" && has "\"state\": \"running\"" && ! has bob/secret'
check "in the list of brokers, too" eval 'status --list && has "^$name .* running "'
check "why says what it knows without others' waits" eval \
	'status --why "$name" && head -n 1 out | grep -q "shows this user its own objects" && ! has bob/secret && [ ! -s err ]'
# Bob waits for Alice, and for a third user: so he may go on. Alice is not shown the latter.
carol=4003
stand_still() {
	local user
	for user in $alice $bob $carol; do
		as "$user" "$ctl" create "turn/$user" 4K --timeline --dedicated --mode 644 || return
	done
	holds $carol alices-tool signal turn/$carol 1 && holds $alice alices-tool signal turn/$alice 1 await turn/$bob 9 &&
		holds $bob bobs-tool signal turn/$bob 1 await turn/$alice 9 await turn/$carol 9
}
check "three users' processes stand still" stand_still
check "what another user waits for beside is not known: that is no deadlock" eval \
	'status --why "$name" && has "waits for turn/4002 to reach 9" && ! has deadlock'
check "nor is it one for root, who sees it" eval '"$show" --why "$name" >out 2>err && has "waits for turn/4003 to reach 9" && ! has deadlock'
kill -KILL "${held[@]: -3}"
check "but no broker by the name of another" eval '! GPUBROKER=unix:$work/none status "$name" && grep -q "is not for you" err'
check "who may read the file reads it" eval '"$show" --json "$name" >out && has "\"partial\": false" && has bob/secret'
in_own_namespace() {
	unshare --mount sh -c 'mount -t tmpfs none /dev/shm && exec "$@"' - \
		setpriv --reuid=$alice --regid=$alice --clear-groups "$show" "$@" >out 2>err
}
if unshare --mount true 2>/dev/null; then
	check "and who does not see the file, from another mount namespace, is answered by the broker" eval \
		'in_own_namespace && head -n 1 out | grep -q "^Your own objects" && has "^alice/own " && in_own_namespace "$name"'
else
	skip "and who does not see the file is answered by the broker" "no namespace can be made here"
fi

# ---- alone with that ----

session_of() {
	shown $alice sessions && awk -v pid="$1" '$2 == pid { print $1 }' out
}
check "a user evicts its own session by the number that it is shown" eval 'shown $alice evict "$(session_of "$alices")" --kill'
check "and not the one that holds its buffer" eval '! shown $alice evict "$(session_of "$borrower")" && grep -q "another user" err'
check "a drain that does not end names who holds it: the process, not its command" eval \
	'shown $alice drain alice/lent --timeout 0.1; [ $? = 3 ] && grep -q "waits for pid $borrower of 4002," err && ! grep -q bobs-tool err'
check "so does stat" eval 'shown $alice stat alice/lent && has "^  state  *draining$" && has "held by  *pid $borrower of 4002"'

check "a drain of the name that is gone says so" eval \
	'! shown $alice drain alice/lent --timeout 0.1 && grep -q "broker-ctl stat says who" err'
check "until who holds it has ended" eval 'kill -KILL "$borrower" && soon eval "! shown $alice stat alice/lent"'

# ---- often, and much ----

many() {
	for ((i = 0; i < 300; i++)); do
		printf 'create bulk/%s 600 ' $i
	done
}
check "what does not fit into one packet, or one pass" eval \
	'holds $bob bobs-tool $(many) && raw $bob && in_bytes bulk/0 && in_bytes bulk/299 &&
	 shown $bob list "bulk/*" && lines 301'
check "and again and again" as $alice "shared/alices-tool" again 500

kill -KILL "$bobs"
check "the broker goes on, and ends balanced" eval 'touch shared/end; stops TERM 0 && grep -q "balanced$" err && ! grep -q "is disconnected: it does not read" err'
plan

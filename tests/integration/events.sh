#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# events.sh - broker-ctl events beside a real brokerd: each kind that a test can cause, after a SIGKILL and in the next broker of the
# name, filters, JSON whose keys the man page has, --follow, a ring that is full, floods, and what brokerd's log says meanwhile.
# shellcheck disable=SC2016 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
# shellcheck source=tests/own-brokerd.sh
. "$top_srcdir/tests/own-brokerd.sh"

ctl=$(cd "${top_builddir:?}" && pwd)/broker/broker-ctl
client=${ctl%/broker/*}/tests/integration/status-client
page=$(cd "$top_srcdir" && pwd)/man/broker-ctl.1
name=events-$$
follower=''
own_folder
trap 'own_cleanup "$follower"' EXIT

# events OPTIONS...: what it prints, in shown; true when it exits with 0 and complains of nothing
events() {
	timeout -s KILL 30 "$ctl" events "$name" "$@" >shown 2>complaint </dev/null && [ ! -s complaint ]
}

# tells KIND PATTERN [TIMES]: there are so many of that kind, each with that text
tells() {
	events --kind "$1" && [ "$(wc -l <shown)" = "${3:-1}" ] && [ "$(grep -cE -- "$2" shown)" = "${3:-1}" ]
}

# who: a client as the log and the events name it
who='session [0-9]+ \(pid [0-9]+, uid [0-9]+\)'

do_ctl() {
	timeout -s KILL 30 "$ctl" "$@" >said 2>&1 </dev/null
}

do_client() {
	timeout -s KILL 120 "$client" "$@" >said 2>&1 </dev/null
}

# session_of FILE: the number of the session of the process whose pid is in the file
session_of() {
	"$ctl" sessions --json | awk -v pid="$(cat "$1")," '
		$1 == "\"session\":" { id = $2 + 0 } $1 == "\"pid\":" && $2 == pid { found = 1 }
		/}/ { if (found) print id; found = 0 }' | head -n 1
}

configure 'log = verbose' 'quota "default" { buffers = 40 }'
# shellcheck disable=SC2119 # a start without a command in front
if ! start; then
	echo "Bail out! the broker does not start: $(cat err)"
	exit 1
fi

# ---- one of each kind ----

do_ctl create a/1 1M --mode 0640
do_ctl create b 4K --dedicated
do_ctl create c 4K
do_ctl create a/1 1M
do_ctl create huge 1024G
do_ctl chmod 0600 b
do_ctl chown "$(id -u)" b
do_ctl ticket b && cp said ticket
sed 's/..$/xx/' ticket >forged
do_client redeem ticket
do_client redeem ticket
do_client redeem forged
do_ctl ticket b --lifetime 0.01
cp said late
sleep_until_late() { do_client redeem late; grep -q expired said; }
soon sleep_until_late
do_ctl ticket b
do_ctl unlink b
do_ctl unlink nothing
do_ctl drain c

check "a start" tells start "'$name' serves 1 host device"
check "a create, with who, what, how large and which mode" eval 'events --kind create && grep -qE "^[0-9-]+ [0-9:.]+ create  +$who created .a/1. of 1 MiB with mode 0640$" shown'
check "a create that is refused: the name is taken" eval 'events --kind create-refused && grep -qE "$who was refused the create of .a/1. of 1 MiB: the name is taken" shown'
check "for want of memory" eval 'grep -qE "the create of .huge. of 1 TiB: there is no memory for it" shown'
check "a chmod" tells chmod "$who changed the mode of 'b' to 0600"
check "a chown" tells chown "$who gave 'b' to user $(id -u) and group [0-9]+"
check "tickets" tells ticket "$who issued a ticket for 'b'" 3
check "a redeem" tells ticket-redeemed "$who redeemed a ticket for 'b'"
check "a second one" eval 'events --kind ticket-void && grep -qE "$who was refused a redeem: the ticket was good once" shown'
check "a forged ticket" tells ticket-forged "$who wanted to redeem a ticket that is forged or damaged"
check "an expired one" eval 'events --kind ticket-expired && grep -qE "$who wanted to redeem a ticket that has expired" shown'
check "tickets that are void, since their buffer is gone" tells tickets-revoked "tickets for 'b' are void, 1 of which"
check "an unlink" tells unlink "$who unlinked 'b'"
check "one that is refused" tells unlink-refused "the unlink of 'nothing': there is none"
check "a drain begins" tells drain "$who unlinked 'c' and drains it"
check "and ends" tells drained "'c' is drained for $who"

# holds FILE BUFFER: a client that stays, with its pid in FILE
holds() {
	sh -c 'echo $$ >"$1"; exec "$2" acquire "$3" mark "$1-held" wait end' - "$1" "$client" "$2" >/dev/null 2>&1 </dev/null &
	soon test -e "$1-held"
}
holds evicted a/1
do_ctl evict "$(session_of evicted)"
check "an eviction, by whom" tells evict "session [0-9]+ \(pid $(cat evicted), uid [0-9]+\) is disconnected: it was evicted by $who"
do_ctl evict 999999
check "one that is refused" tells evict-refused "$who was refused the eviction of session 999999"
holds killed a/1
kill -KILL "$(cat killed)"
check "a death with mappings" soon tells death "session [0-9]+ \(pid $(cat killed), uid [0-9]+\) died, and the mappings that it held have ended: 1"
"$client" create d 1 create e 1 mark ephemeral-ready wait end >/dev/null 2>&1 </dev/null &
soon test -e ephemeral-ready
echo 'log = "sideways"' >>brokerd.conf
kill -HUP "$broker"
check "a reload that is refused" soon tells reload-refused 'the configuration stays as it was'
configure 'log = verbose' 'quota "default" { buffers = 40 }'
kill -HUP "$broker"
check "a reload" soon tells reload 'is read again'
check "what is not a kind is refused" eval '! events --kind nothing && grep -q "is no kind of event" complaint'

# ---- filters, JSON ----

check "of one buffer" eval 'events --buffer a/1 && [ "$(wc -l <shown)" = "$(grep -c "a/1" shown)" ] && [ -s shown ]'
check "by a pattern" eval 'events --buffer "a/*" --kind create && [ "$(wc -l <shown)" = 1 ]'
check "of one process, also of whom it was done to" eval 'events --pid "$(cat evicted)" && grep -q evicted shown && ! grep -qv "pid $(cat evicted)," shown'
check "of one user" eval 'events --user "$(id -u)" --kind create && [ -s shown ]'
check "of another" eval 'events --user 54321 && [ ! -s shown ]'
check "of the last hour, and of the last millisecond" eval 'events --since 1h --kind start && [ -s shown ] && events --since 0.001 --kind start && [ ! -s shown ]'
check "oldest first, as JSON: an object a line, numbers in order" eval 'events --json && [ "$(grep -c "^{\"version\":1,\"number\":.*}$" shown)" = "$(wc -l <shown)" ] &&
	sed "s/.*\"number\":\([0-9]*\).*/\1/" shown | sort -nc'
keys_in_page() {
	events --json && tr ',{' '\n' <shown | sed -n 's/^"\([a-z_]*\)":.*/\1/p' | sort -u >keys
	while read -r key; do
		grep -qE "^\.It Cm .*\b$key\b|^\.Cm .*\b$key\b" "$page" || { echo "$key" >&2; return 1; }
	done <keys
}
check "the man page has each key" keys_in_page
kinds_in_page() {
	sed -n 's/.*"kind":"\([a-z-]*\)".*/\1/p' shown | sort -u >kinds
	while read -r kind; do
		grep -qE "^\.It Cm .*\b$kind\b" "$page" || { echo "$kind" >&2; return 1; }
	done <kinds
}
check "and each kind" kinds_in_page

# ---- a killed broker ----

events && cp shown before
old=$broker
kill -KILL "$broker"
ended 137
check "the events of a killed broker are there" eval 'events && cmp shown before'
check "a broker of another name leaves them there" eval \
	'"${ctl%-ctl}-run" --quiet --name "$name-other" --device host -- true && events && cmp shown before'
check "beside other brokers, the one at the address needs no name" eval \
	'"${ctl%-ctl}-run" --quiet --name "$name-other" --device host -- sh -c "exec \"\$0\" events >shown" "$ctl" && grep -q " start .* 1 worker" shown && ! grep -q " wheel" shown'
"$ctl" events "$name" --follow >followed 2>follower-says </dev/null &
follower=$!
# a device that is behind with its releases lets buffers count for longer: the quota of 40 was for the refusals above
configure 'log = verbose'
# while the next broker replaces the status file there is none for a moment, and then a follower that only begins ends
check "--follow shows what is there" soon test -s followed
# shellcheck disable=SC2119
start
check "the next broker of the name goes on with them" eval 'events && head -n "$(wc -l <before)" shown | cmp - before'
check "and says that its predecessor was killed" tells predecessor-killed "\(pid $old\)"
check "in its log, too" grep -q "removed what the dead broker (pid $old) left behind, and kept its events" err
do_ctl create late 4K
check "--follow goes on over both" eval 'soon grep -q "created .late" followed || ! cat follower-says >&2'
do_ctl unlink late
check "and shows each once" eval 'soon grep -q "unlinked .late" followed && [ "$(sort followed | uniq -d | wc -l)" = "$(events && sort shown | uniq -d | wc -l)" ] && [ "$(grep -c "created .late" followed)" = 1 ]'
kill -KILL "$follower"

# ---- a full ring, floods ----

do_client churn wheel 1600 || sed "s/^/# churn: /" said
full() {
	events --json && cp shown full.json && [ "$(grep -c '"buffer":"wheel"' full.json)" = 2816 ]
}
check "invariant 5: a full part of the ring keeps its newest" full
check "and nothing of the other parts is gone" eval 'events --kind start && [ "$(wc -l <shown)" = 2 ] && tells ticket-forged forged'
do_ctl create mine 4K
do_client flood mine 5000
check "invariant 5: a flood of refusals pushes out nobody's creates" eval 'events --buffer mine --kind create && [ "$(wc -l <shown)" = 1 ] &&
	events --buffer wheel && [ "$(wc -l <shown)" -ge 2815 ]'
check "it has a few entries itself" eval 'events --buffer mine --kind create-refused && [ "$(wc -l <shown)" -ge 1 ] && [ "$(wc -l <shown)" -le 18 ]'
check "and a few lines of the log" eval '[ "$(grep -c "the create of .mine" err)" -le 10 ]'

# ---- others ----

if [ "$(id -u)" = 0 ] && setpriv --reuid=4001 --regid=4001 --clear-groups test -x "$ctl" 2>/dev/null; then
	setpriv --reuid=4001 --regid=4001 --clear-groups "$ctl" events "$name" >shown 2>complaint </dev/null
	check "another user is told why not, and what to do" eval '[ ! -s shown ] && [ "$(wc -l <complaint)" = 1 ] && grep -q "the events of the broker .$name. are not for you: .*" complaint'
else
	skip "another user is told why not, and what to do" "needs root, and a build that everybody can read"
fi
check "no such broker" eval '! timeout 30 "$ctl" events nobody >shown 2>complaint && grep -q "there is no broker .nobody" complaint'
rm followed # what it had is not this one's
"$ctl" events "$name" --kind create --follow >followed 2>/dev/null </dev/null &
follower=$!
soon test -s followed
check "what is left out is said at the end at the latest" eval 'stops TERM 0 && grep -qE "create-refused \(name\): [0-9]+ more like this were left out within a minute" err'
check "a broker that ended takes its events along" eval '! events && grep -q "there is no broker" complaint'
# shellcheck disable=SC2119
start
do_ctl create again 4K
check "and --follow waits for the next one of that name" soon grep -q "created 'again'" followed
plan

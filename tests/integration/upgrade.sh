#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# upgrade.sh - brokerd goes on as the program that is installed now (SIGUSR2): what stays, what is refused, and the way back. That no call
# fails and no byte is lost under load: broker-kills.sh.
# shellcheck disable=SC2016,SC2034,SC2119,SC2120 # what a check evaluates expands then, not before; configure takes lines or none
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
name=upgrade-$$
# shellcheck source=tests/own-brokerd.sh
. "$top_srcdir/tests/own-brokerd.sh"

built=$(cd "${top_builddir:?}" && pwd)
status=$built/broker/broker-status
ctl=$built/broker/broker-ctl
client=$built/tests/integration/status-client
own_folder
trap 'touch "$work/end"; own_cleanup' EXIT
export ctl

# install PROGRAM: it lies where brokerd is started, as another file
install_program() {
	cp "$1" next && chmod 755 next && mv next brokerd
}
brokerd=$work/brokerd
install_program "$built/broker/brokerd"

runs() {
	[ "$(stat -Lc %i "/proc/$broker/exe")" = "$(stat -c %i brokerd)" ]
}

fds() { find "/proc/$broker/fd" -type l | wc -l; }

# asks: brokerd is asked to upgrade itself
asks() {
	before=$(broker_of "$broker")
	kill -USR2 "$broker"
}

is_next() {
	[ -n "$(broker_of "$broker")" ] && [ "$(broker_of "$broker")" != "$before" ]
}

upgraded() {
	asks && soon is_next && timeout 30 "$ctl" list >listed 2>&1
}

hold() {
	rm -f mapped end
	"$client" create "$1" 64K acquire "$1" mark mapped wait end >client.out 2>&1 </dev/null &
	holder=$!
	soon test -e mapped
}

# refuses TEXT: an upgrade is refused, with that text in the log, and the broker serves on
refuses() {
	asks
	soon grep -q "$1" err && soon grep -q "there is no upgrade, and all goes on as before" err &&
		[ "$(broker_of "$broker")" = "$before" ] && timeout 30 "$ctl" list >listed 2>&1
}

# rests: no upgrade is under way
rests() {
	before=$(broker_of "$broker")
	sleep 0.5
	[ -n "$before" ] && [ "$(broker_of "$broker")" = "$before" ]
}

# ---- an upgrade ----

configure
check "a brokerd starts" start
hold held
owner=$(owner_of "$broker")
count_before=$(fds)
install_program "$built/broker/brokerd"
check "the file of the program is another one" eval '! runs'
version=$("$brokerd" --version | sed 's/.* //')
check "the doctor says so, and what to do" eval 'timeout 30 "$ctl" doctor >findings 2>&1; grep -q "^warn: the broker runs a program whose file was replaced since its start; kill -USR2 $broker: " findings'
check "brokerd goes on as that, in the same process, with the buffer" eval 'upgraded && runs && grep -q "^held " listed'
check "the doctor is content with its program" eval 'timeout 30 "$ctl" doctor >findings 2>&1; grep -qx "ok: the broker runs gpubroker $version" findings'
check "status, JSON and metrics have its version" eval '"$status" "$name" | grep -q "^broker $name: .*, gpubroker $version$" && shown version "\"$version\"" &&
	"$status" --openmetrics "$name" | grep -q "^gpubroker_broker_info{.*version=\"$version\""'
check "and the line of its start" grep -q " serves .*; gpubroker $version$" err
check "under its name" test "$(cat "/proc/$broker/comm")" = brokerd
check "with the same owner" test "$(owner_of "$broker")" = "$owner"
check "the status shows that, and how long it took" eval 'shown restarts 1 && shown ended "\"upgraded\"" && shown pause_us "[1-9][0-9]*"'
check "an event says so" event "broker-replaced +a broker made way for gpubroker $version: process [0-9]+ goes on with its [0-9]+ objects"
check "it can be done again, and again" eval 'upgraded && upgraded && upgraded'
are_as_before() { [ "$(fds)" -le $((count_before + 2)) ]; }
check "with no descriptor more but those of two configurations, of the start and of the last reload" soon are_as_before
mv brokerd brokerd.old
install_program "$built/broker/brokerd"
check "also where the previous file has another name by then" eval 'upgraded && runs'
rm -f brokerd.old
check "a broker that is killed has a successor there, too" eval 'before=$(broker_of "$broker"); kill -KILL "$before"; soon is_next && timeout 30 "$ctl" stat held >said 2>&1'
check "and the owner, when it is killed" eval 'kill -KILL "$owner"; soon eval "[ -n \"\$(owner_of \"\$broker\")\" ]" && timeout 30 "$ctl" create later 64K && timeout 30 "$ctl" drain later'
check "no process stays a zombie" soon eval '! grep -lsx "PPid:	$broker" /proc/[0-9]*/status | xargs grep -l "^State:	Z" >/dev/null 2>&1'

# ---- the configuration ----

configure 'quota "default" { buffers = "5" }' 'quota "root" { buffers = "5" }' 'board { buffers = "4711" }'
of_quota() {
	local n
	for n in 1 2 3 4; do timeout 30 "$ctl" create "q$n" 1K || return 1; done >/dev/null 2>&1
	! timeout 30 "$ctl" create q5 1K >said 2>&1 && grep -q "may hold 5" said
}
check "the configuration is read again" eval 'upgraded && soon event "reload .*its quotas apply from now on" && of_quota'
check "but for what needs a restart" grep -q "board.buffers.* changed in .*: that needs a restart" err
echo 'this is no configuration' >brokerd.conf
check "one that cannot be read leaves the one before in force" eval 'upgraded && soon event "reload-refused" && ! timeout 30 "$ctl" create q5 1K >said 2>&1 && grep -q "may hold 5" said'
configure
is_upgraded() { shown ended "\"upgraded\""; }
check "one that is asked for while no broker serves follows" eval 'process=$(broker_of "$broker") && kill -STOP "$process" && kill -KILL "$process" && asks && soon is_upgraded'
check "two upgrades at once, with a reload and another kill" eval 'asks; kill -HUP "$broker"; asks; kill -KILL "$before"; soon is_next && soon rests && timeout 30 "$ctl" stat held >said 2>&1'

# ---- what is refused ----

printf '#!/bin/sh\nexit 3\n' >script && install_program script
check "a program that cannot be executed is refused" refuses "cannot be executed"
: >err
for program in false true; do
	install_program "$(type -P $program)"
	check "one that does not say yes is refused: $program" refuses "the new brokerd cannot go on, as it says"
	: >err
done
: >err
rm brokerd
check "and one that is not there" refuses "brokerd cannot be opened"
install_program "$built/broker/brokerd"
check "then an upgrade is as before" eval 'upgraded && runs && grep -q "^held " listed'

# ---- the way back ----

served=$(stat -c %i brokerd)
install_program "$built/tests/integration/false-upgrade"
is_back() {
	[ "$(stat -Lc %i "/proc/$broker/exe")" = "$served" ] && is_next && timeout 30 "$ctl" stat held >said 2>&1
}
for how in crashes fails; do
	echo $how >false
	: >err
	check "one that $how makes room for the previous program, with all that there was" eval 'asks; soon is_back'
	check "which the log says: $how" grep -q "the new brokerd does not come up: the previous one goes on" err
done
check "the previous program can be upgraded again" eval 'install_program "$built/broker/brokerd" && upgraded && runs && grep -q "^held " listed'

# ---- a trial that hangs ----

echo hangs >false
hangs() { asks && soon eval '[ -n "$(trial)" ]' && trying=$(trial); }
is_over() { [ ! -d "/proc/$trying" ]; }
# exec by a descriptor: the kernel names the process after its number before Linux 6.14
trial() { children "$broker" | while read -r pid; do [ "$(readlink "/proc/$pid/exe")" != "$work/brokerd" ] || echo "$pid"; done; } 2>/dev/null
install_program "$built/tests/integration/false-upgrade"
: >err
check "one that does not answer is tried, and the broker serves on" eval 'hangs && timeout 30 "$ctl" stat held >said 2>&1'
has_little() {
	find "/proc/$trying/fd" -type l -printf '%l\n' >open
	[ "$(grep -c '^socket:' open)" -le 1 ] && ! grep -E '^/memfd:|^/dev/shm/' open | grep -vE 'gpubroker-(ledger|board|handover) |brokerd.conf '
}
check "it has no descriptor of a client, of memory or of a key" has_little
check "when it is killed nothing changes" eval 'kill -KILL "$trying"; soon grep -q "the new brokerd was ended by signal 9 when it was tried" err &&
	[ "$(broker_of "$broker")" = "$before" ]'
check "a request that comes meanwhile is tried afterwards" eval 'hangs && install_program "$built/broker/brokerd" && kill -USR2 "$broker" && kill -KILL "$trying" && soon is_next && runs'

# ---- the end ----

install_program "$built/tests/integration/false-upgrade"
check "a trial is under way when brokerd is to end" hangs
install_program "$built/broker/brokerd"
check "a broker that is to end is not upgraded" eval 'kill -TERM "$broker"; is_draining() { "$status" "$name" | grep -q "^held .*draining"; }; soon is_draining && kill -KILL "$trying" && asks &&
	soon grep -q "there is no upgrade, and all goes on as before: brokerd is to end" err'
touch end
check "its holder ends as ever" wait "$holder"
check "and so does brokerd, with all accounts balanced" eval 'ended 0 && grep -q "balanced$" err'
check "and leaves nothing" eval '! ls -d /dev/shm/gpubroker."$name"* "$socket"* 2>/dev/null'

# ---- a socket that was passed on ----

rm -f end mapped
: >err
configure
"$built/tests/integration/activate" packets="$socket" -- "$brokerd" -c brokerd.conf >out 2>err </dev/null &
broker=$!
soon is_up
hold held
check "one with a socket that was passed on goes on, too" eval 'upgraded && grep -q "^held " listed'
touch end
wait "$holder"
check "and ends in order" stops TERM 0

# ---- the end of brokerd during a trial, and its service manager ----

rm -rf end mapped messages
"$built/tests/integration/notify-listen" "$work/notify" >messages </dev/null &
listener=$!
trap 'touch "$work/end"; own_cleanup $listener' EXIT
soon grep -q listening messages
check "one with a watchdog starts" start env NOTIFY_SOCKET="$work/notify" WATCHDOG_USEC=2000000
count_alive() { grep -c '^WATCHDOG=1$' messages; }
often() {
	local n
	for n in 1 2 3 4 5 6; do upgraded || return 1; done
	[ "$(count_alive)" -ge 6 ]
}
check "which gets a report at each upgrade" often
is_ready_again() { [ "$(grep -c "^READY=1 STATUS=serving at $socket$" messages)" -ge 7 ]; }
check "and that it serves" soon is_ready_again
install_program "$built/tests/integration/false-upgrade"
check "a trial that hangs" hangs
check "ends with brokerd, when that is killed" eval 'kill -KILL "$broker"; ended 137; soon is_over'
plan

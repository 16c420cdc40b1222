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

shown() {
	timeout 30 "$status" --json "$name" >json 2>&1 && sed -n '/"broker_process": {/,/}/p' json | grep -qE "\"$1\": $2,?\$"
}

event() {
	timeout 30 "$ctl" events >told 2>&1 && grep -qE "$1" told
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
	soon grep -q "$1" err && [ "$(broker_of "$broker")" = "$before" ] && timeout 30 "$ctl" list >listed 2>&1 &&
		grep -q "there is no upgrade, and all goes on as before" err
}

# ---- an upgrade ----

configure
check "a brokerd starts" start
hold held
owner=$(owner_of "$broker")
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
fds() { find "/proc/$broker/fd" -type l | wc -l; }
count_before=$(fds)
check "it can be done again, and again" eval 'upgraded && upgraded && upgraded'
are_as_before() { [ "$(fds)" -le "$count_before" ]; }
check "with no descriptor more" soon are_as_before
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
check "two upgrades at once, with a reload and another kill" eval 'asks; kill -HUP "$broker"; asks; kill -KILL "$before"; soon is_next && timeout 30 "$ctl" stat held >said 2>&1'

# ---- what is refused ----

printf '#!/bin/sh\nexit 3\n' >script && install_program script
check "a program that cannot be executed is refused" refuses "cannot be executed"
: >err
install_program "$(type -P false)"
check "one that says no is refused" refuses "the new brokerd cannot go on, as it says"
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
: >err
check "one whose brokers do not come up makes room for the program of before, with all that there was" eval 'asks; soon is_back'
check "which the log says" grep -q "the brokers of the new brokerd do not come up: the one of before goes on" err
check "the program of before can be upgraded again" eval 'install_program "$built/broker/brokerd" && upgraded && runs && grep -q "^held " listed'

# ---- the end ----

check "a broker that is to end is not upgraded" eval 'kill -TERM "$broker"; is_draining() { "$status" "$name" | grep -q "^held .*draining"; }; soon is_draining && asks &&
	soon grep -q "no broker serves, or it is to end" err'
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
plan

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# supervisor.sh - nothing that a test starts lives longer than the test: whatever it has started, whichever process is
# killed, and when. Processes of ours are told by a mark in their environment; no other is looked at.
# shellcheck disable=SC2016 # expanded by other shells
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

supervisor=${top_builddir:?}/tests/supervisor
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

if "$supervisor" 20 true 2>&1 | grep -q 'no child subreaper'; then
	echo "1..0 # SKIP no child subreaper (an emulator)"
	exit 0
fi

# ---- what is there ----

# marked: the processes that have the mark; grep's exit status speaks of those that ended while it looked
marked() {
	grep -lsxz "SUPERVISOR_TEST=$$" /proc/[0-9]*/environ
}
none() {
	marked >found
	[ ! -s found ]
}
# nothing_left: soon there is none; otherwise a failure shows which there are, and they are ended here
nothing_left() {
	local path
	soon none && return
	while read -r path; do
		tr '\0' ' ' <"${path%environ}cmdline"
		echo
		kill -KILL "$(basename "$(dirname "$path")")"
	done <found >err
	return 1
} 2>/dev/null
# supervised ARGS...: the supervisor in the background; what it runs has the mark
supervised() {
	SUPERVISOR_TEST=$$ "$supervisor" "$@" >out 2>err </dev/null &
	outer=$!
}
# ends CODE: so does the supervisor
ends() {
	wait "$outer"
	[ $? = "$1" ]
} 2>/dev/null

# ---- exit status and limit ----

exits() {
	local code=$1
	shift
	supervised 20 "$@"
	ends "$code"
}
check "the test's exit status is the supervisor's" exits 3 sh -c 'exit 3'
check "a signal that ended it, too" exits 137 sh -c 'kill -KILL $$'
check "what cannot be run: exit 125" exits 125 ./nothing
check "no limit: exit 125" eval '"$supervisor" 0 true 2>err; [ $? = 125 ]'
# bash lists what was ignored when it started
default_signals() {
	(trap '' HUP INT QUIT PIPE CHLD USR1 && exec "$supervisor" 20 bash -c 'trap -p; echo run') >out 2>err </dev/null &&
		[ "$(cat out)" = run ]
}
check "whatever the caller ignores, a test has all signals as by default" default_signals
over() {
	supervised 1 sh -c 'sleep 1000 & sleep 1000'
	ends 124 && nothing_left
}
check "past its time a test ends, and all that it started: exit 124" over
check "a test that ends by itself: what it left is named" eval \
	'exits 0 sh -c "sleep 1000 & exit 0" && nothing_left && grep -q "# supervisor: killed .*: s[a-z]* (pid [0-9]*)$" err'
check "one that left nothing: nothing is said" eval 'exits 0 true && [ ! -s err ]'

# ---- every kind of process, and each that may be killed ----

# In sessions and groups of their own, without a parent, deaf to signals, stopped, another user's, behind other programs.
cat >family <<'END'
echo $$ >test
echo $PPID >inner
sleep 1000 &
setsid sleep 1001 &
(setsid sh -c 'sleep 1002 & exit' &)
(trap '' TERM HUP INT; sleep 1003) &
sh -c 'kill -STOP $$' &
timeout 1000 sh -c 'sleep 1004; true' &
[ "$(id -u)" != 0 ] || setpriv --reuid=65534 --clear-groups sleep 1005 &
unshare -pf sleep 1006 2>/dev/null &
wait
END
all_there() {
	[ "$(marked | wc -l)" -ge 11 ]
}
start_family() {
	supervised 100 bash family
	soon all_there
}
killed_test() {
	start_family && kill -KILL "$(cat test)" && ends 137 && nothing_left
}
check "the test is killed: all that it started ends" killed_test
check "its supervisor is killed" eval 'start_family && kill -KILL "$(cat inner)" && ends 137 && nothing_left'
check "the outer supervisor is killed" eval 'start_family && kill -KILL "$outer" && ends 137; nothing_left'
check "the test's process group is killed" eval 'start_family && kill -KILL -- "-$(cat test)" && ends 137 && nothing_left'
check "the supervisor is told to end" eval 'start_family && kill -TERM "$outer" && ends 143 && nothing_left'
caller() {
	SUPERVISOR_TEST=$$ sh -c '"$1" 100 bash family & wait' - "$supervisor" >out 2>err </dev/null &
	outer=$!
	soon all_there && kill -KILL "$outer" && ends 137
	nothing_left
}
check "who started it is killed" caller

# ---- the real tests, killed at any moment ----

# What they leave behind in folders goes with folders of their own.
mounts='mount -t tmpfs tmpfs /dev/shm && mount -t tmpfs tmpfs /tmp && exec "$@"'
folders=''
for flag in -m -mr; do
	unshare $flag sh -c "$mounts" - test -x "$supervisor" 2>/dev/null && folders=$flag && break
done
# A script as it is started by hand; $outer is the pid that somebody would kill.
killed_script() {
	SUPERVISOR_TEST=$$ unshare "$folders" sh -c "$mounts" - env -u GPUB_SUPERVISED TMPDIR=/tmp bash "$top_srcdir/tests/$1" \
		>out 2>err </dev/null &
	outer=$!
	sleep "$2"
	kill -KILL "$outer"
	ends 137
	nothing_left
}
# A program as make check starts it; the program itself is killed.
killed_program() {
	rm -f test
	SUPERVISOR_TEST=$$ unshare "$folders" sh -c "$mounts" - "$supervisor" 100 sh -c 'echo $$ >test; exec "$@"' - \
		"$top_builddir/tests/$1" >out 2>err </dev/null &
	outer=$!
	soon test -s test
	sleep "$2"
	kill -KILL "$(cat test)" 2>/dev/null
	wait "$outer" 2>/dev/null
	nothing_left
}
RANDOM=${SUPERVISOR_SEED:=$$}
echo "# SUPERVISOR_SEED=$SUPERVISOR_SEED"
for each in script:integration/{brokerd,ctl,secrets,startup,status}.sh \
	program:integration/{fork,killed,users} program:unit/test-{session,host-device,identity}; do
	moment=$(printf 0.%03d $((RANDOM % 900)))
	if [ -n "$folders" ]; then
		check "killed after $moment s: ${each#*:}" "killed_${each%:*}" "${each#*:}" "$moment"
	else
		skip "killed at any moment: ${each#*:}" "no namespace can be made here, or the build is below /tmp"
	fi
done

plan

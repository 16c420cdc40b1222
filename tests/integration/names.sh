#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# names.sh - the names of a broker are removed while it serves, as a logout and cleaners of old files do: it makes them again, at the same
# place and locked, or says that it cannot. What a living broker has is never taken for a dead one's.
# shellcheck disable=SC2016,SC2034 # what a check evaluates, and the workers' shells, expand then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

built=$(cd "${top_builddir:?}" && pwd)
run=$built/broker/broker-run
ctl=$built/broker/broker-ctl
show=$built/broker/broker-status
client=$built/tests/integration/status-client
name=names-$$
export GPUBROKER_EXPORT=ipc # memory by descriptors has no names, and its directory stays empty
work=$(mktemp -d) || exit 1
socket=$work/gpubroker/socket
status_file=/dev/shm/gpubroker.$name
# shellcheck source=tests/own-brokerd.sh
. "$top_srcdir/tests/own-brokerd.sh"
export client
cleanup() {
	touch "$work/go" "$work/end"
	[ -z "$broker" ] || stops KILL 137
	wait
	rm -rf "$work" "$status_file"*
} 2>/dev/null
trap cleanup EXIT
cd "$work" || exit 1
unset GPUBROKER

same() { # PATH INODE: the path leads to another file than that
	[ -e "$1" ] && [ "$(stat -c %i "$1")" != "$2" ]
}
again() { # PATH INODE
	soon same "$1" "$2"
}
# sleeps: none of the broker's threads wakes for a while, so no timer finds what is removed next
woken() {
	cat "/proc/${broker:-$job}/task"/*/status | sed -n 's/^voluntary_ctxt_switches:\t//p'
}
rests() {
	local before
	before=$(woken)
	sleep 0.7
	[ -n "$before" ] && [ "$(woken)" = "$before" ]
}
sleeps() {
	soon rests
}
has_event() { # KIND TEXT: in the ring of the events, not only in the log
	"$ctl" events --json "$name" 2>ctl.err | grep "\"$1\"" | grep -qF -- "$2"
}
# serves BUFFER: a program that starts now reaches the broker
serves() {
	GPUBROKER=$address "$client" create "$1" 1 acquire "$1" unlink "$1" >client.out 2>client.err
}

# ---- broker-run ----

begin() { # OPTION...: sets job, address, directory
	rm -f go address
	XDG_RUNTIME_DIR=$work "$run" --device host --name "$name" "$@" -- sh -c \
		'echo "$GPUBROKER" >address.new; mv address.new address; "$client" create kept 1 acquire kept mark held wait go' >out 2>err </dev/null &
	job=$!
	soon test -e address -a -e held
	address=$(cat address)
	directory=$(dirname "${address#unix:}")
}
ends() { # STATUS
	touch go
	wait "$job"
	[ $? = "$1" ] && rm -f held
}

begin -b u=64K
check "a broker without work does not wake" sleeps
check "the socket is not in XDG_RUNTIME_DIR, which the last logout removes" eval '[[ $directory = /tmp/gpubroker-$name.?????? ]]'
check "the directory is locked, so that systemd-tmpfiles leaves it alone" eval '! flock -n "$directory" true'
inode=$(stat -c %i "$status_file")
rm "$status_file"
check "the status file is there again" again "$status_file" "$inode"
check "with what was in it" eval '"$show" "$name" >out 2>err.show && grep -q kept out && has_event start "1 worker" && has_event create kept'
check "and an event that says so" soon has_event name-restored "$status_file"
check "the log says so, too" grep -q "^broker-run: somebody removed a name of the broker, which is made again: $status_file$" err
check "nobody takes the new one for a dead broker's" eval '"$run" -q --device host -- true && test -e "$status_file"'

inode=$(stat -c %i "$directory/socket")
sleeps
rm "$directory/socket"
check "the socket is there again" again "$directory/socket" "$inode"
check "and serves" serves a
inode=$(stat -c %i "$directory")
sleeps
rm -r "$directory"
check "the whole directory is there again" again "$directory" "$inode"
check "and serves" soon serves b
check "its mode is as it was" [ "$(stat -c %a "$directory" "$directory/socket" | tr '\n' ' ')" = "700 600 " ]
check "it is locked again" eval '! flock -n "$directory" true && "$run" -q --device host -- true && test -e "$directory/socket"'
sleeps
rm "$directory/lock"
check "so is the lock alone" soon test -e "$directory/lock"
check "with the directory" soon eval '! flock -n "$directory" true && [ -S "$directory/socket" ]'
sleeps
mv "$directory" "$directory.moved"
check "so is a directory that was renamed" soon serves moved
rm -r "$directory.moved"
sleeps
rm "$directory/socket" && ln -s /dev/null "$directory/socket"
check "a link in the socket's place is not followed" soon test -S "$directory/socket"

inode=$(stat -c %i "$status_file.mem")
sleeps
rm -r "$status_file.mem"
check "the memory's directory is there again" again "$status_file.mem" "$inode"
inode=$(stat -c %i "$status_file.mem")
sleeps
find "$status_file"* -depth -delete && rm -r "$directory"
check "a logout takes all at once: all of it is there again" eval 'again "$status_file.mem" "$inode" && soon serves c && soon "$show" "$name" >out 2>err.show'
check "what a program maps it maps still" eval '"$show" "$name" >out && grep -q "kept" out && [ ! -e go ]'
check "another one is told why it cannot" eval '! GPUBROKER=$address "$client" acquire u >client.out 2>client.err && grep -q "somebody removed the file, as a logout does; create the buffer anew" client.err'
check "and an event has named that" soon has_event name-restored "$status_file.mem (create its buffers anew)"
check "new buffers do not get memory without a name" eval 'GPUBROKER=$address "$client" create v 1 create w 2 >client.out 2>client.err &&
	GPUBROKER=$address "$client" acquire v acquire w unlink v unlink w >client.out 2>client.err'
check "the job ends as always" eval 'ends 0 && grep -q "balanced$" err && ! grep -q NOT err'
check "nothing is left" test -z "$(find /dev/shm /tmp -maxdepth 1 -name "gpubroker?$name*")"

# in a user namespace that has no inotify instances
without_inotify() {
	unshare -Ur sh -c 'echo 0 >/proc/sys/user/max_inotify_instances && exec "$@"' sh "$@"
}
if without_inotify true 2>/dev/null; then
	check "without an inotify instance, a name is made again, too" without_inotify "$run" -q --device host --name "$name" -- \
		sh -c 'sleep 0.7; rm "$0" && for i in $(seq 100); do [ ! -e "$0" ] || exit 0; sleep 0.1; done; exit 1' "$status_file"
else
	skip "without an inotify instance, a name is made again, too" "this user may not make a user namespace"
fi

# in a mount namespace where nobody can write /tmp, but for this script's directory
without_tmp() {
	local user=()
	[ "$(id -u)" = 0 ] || user=(-r)
	unshare "${user[@]}" -m sh -c 'mount --bind /tmp /tmp && mount --bind "$0" "$0" && mount -o remount,bind,ro /tmp && cd "$0" && exec "$@"' "$work" "$@"
}
if without_tmp true 2>/dev/null; then
	check "where /tmp cannot be written, the socket is in XDG_RUNTIME_DIR" eval 'XDG_RUNTIME_DIR=$work without_tmp "$run" -q --device host --name "$name" -- \
		sh -c "echo \"\$GPUBROKER\"" >out 2>err && [[ $(cat out) = unix:$work/gpubroker-$name.??????/socket ]]'
	check "and without that nowhere: exit 125 and why" eval '(unset XDG_RUNTIME_DIR; without_tmp "$run" -q --device host --name "$name" -- true) >out 2>err
		[ $? = 125 ] && grep -q "^broker-run: no directory for the socket can be made in /tmp: " err'
else
	skip "where /tmp cannot be written, the socket is in XDG_RUNTIME_DIR" "this user may not make a mount namespace"
fi

# ---- a second broker of the name ----

begin -b u=64K
kill -STOP "$(broker_of "$job")"
rm "$status_file"
objects=$(ls "$status_file.mem")
timeout -k 5 20 "$run" --device host --name "$name" -- touch second >out 2>second.err </dev/null
status=$?
kill -CONT "$(broker_of "$job")"
check "it is refused, though there is no status file" eval '[ $status = 125 ] && [ ! -e second ] && grep -q "$status_file.mem is in use by a broker of that name" second.err'
check "and deletes no memory of the first" [ "$(ls "$status_file.mem")" = "$objects" ]
check "which serves it" eval 'GPUBROKER=$address "$client" acquire u >client.out 2>client.err'
check "and has its status file again" soon eval '"$show" "$name" >out 2>err.show'
check "it ends as always" ends 0

# ---- what another user puts in the place ----

if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	begin
	kill -STOP "$(broker_of "$job")"
	rm "$status_file"
	# a file that nobody has locked would be removed by the next broker of root's
	setpriv --reuid=65534 --clear-groups ln -s "$work/bait" "$status_file"
	kill -CONT "$(broker_of "$job")"
	check "another user's link in the place of the status file: the log says so" soon grep -q \
		"broker-run: the status file $status_file was removed, and another file has its name: broker-status does not show this broker" err
	check "and it is not followed" [ -L "$status_file" -a ! -e bait ]
	rm "$status_file"
	check "when that is gone the status file is there again" soon eval '"$show" "$name" >out 2>err.show'
	kill -STOP "$(broker_of "$job")"
	rm -r "$directory"
	setpriv --reuid=65534 --clear-groups mkdir -m 777 "$directory"
	kill -CONT "$(broker_of "$job")"
	check "another user's directory in the place of the socket's: the log says so" soon grep -q \
		"broker-run: $directory was removed, and cannot be made again: something of that name, which is not this user's alone" err
	check "and nothing is put into it" [ -z "$(ls -A "$directory")" ]
	touch go
	wait "$job"
	status=$?
	check "a broker that ends without its socket says so: exit 125" eval '[ $status = 125 ] && grep -q "programs that started since then did not reach the broker" err'
	check "and leaves the other one's directory alone" rmdir "$directory"
	rm -f held
else
	skip "another user's link in the place of the status file" "root alone can be two users"
fi

# ---- brokerd ----

configure 'mode = "0660"'
# shellcheck disable=SC2119 # it may be given a command
start || echo "Bail out! no broker: $(cat err)"
address=unix:$socket
mode=$(stat -c %a "$socket")
inode=$(stat -c %i "$socket")
check "a brokerd without work does not wake" sleeps
rm "$socket" "$socket.lock"
check "brokerd's socket is there again" again "$socket" "$inode"
check "with its mode and its lock" eval '[ "$(stat -c %a "$socket")" = "$mode" ] && [ -e "$socket.lock" ]'
check "and serves" serves a
check "another brokerd for that socket is refused" eval '! timeout -k 5 20 "$brokerd" -c brokerd.conf --instance "$name-2" >out 2>second.err &&
	grep -q "another brokerd serves $socket" second.err'
sleeps
rm -r gpubroker
check "so is its directory" soon serves b
check "an event says so" has_event name-restored "$socket"
sleeps
rm -r gpubroker && touch gpubroker
check "where it cannot be, the log says so" soon grep -q "brokerd: .*$work/gpubroker" err
check "and an event" soon has_event name-lost "$work/gpubroker"
rm gpubroker
check "it is there again when it can be" soon serves c
sleeps
chmod 777 gpubroker
check "where others may write its directory, the log says so" soon grep -q "users other than the broker's may write" err
check "the end is as always" stops TERM 0
check "nothing is left" test -z "$(find /dev/shm "$work" -name "gpubroker*$name*")$(ls gpubroker)"
plan

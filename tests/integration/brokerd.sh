#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# brokerd.sh - the broker as a service: its options and configuration, the socket that it makes or is passed, what it tells
# the service manager, a reload, several users, and every way to stop. What each key means is held by test-configuration.
# shellcheck disable=SC2016 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
# shellcheck source=tests/own-brokerd.sh
. "$top_srcdir/tests/own-brokerd.sh"

show=${top_builddir:?}/broker/broker-status
run=$top_builddir/broker/broker-run
client=$top_builddir/tests/integration/status-client
listen=$top_builddir/tests/integration/notify-listen
activate=$top_builddir/tests/integration/activate

work=$(mktemp -d) || exit 1
name=brokerd-$$
others=()
cleanup() {
	[ -n "$broker" ] && kill -KILL "$broker"
	touch "$work/go"
	[ ${#others[@]} -gt 0 ] && kill -KILL "${others[@]}"
	wait
	rm -rf "$work" /dev/shm/gpubroker."$name"*
} 2>/dev/null
trap cleanup EXIT
cd "$work" || exit 1
chmod 711 .
socket=$work/run/socket
export GPUBROKER=unix:$socket

said() {
	grep -q -e "$1" err
}

# runs CODE ARGS...: brokerd, which is to end by itself
runs() {
	local code=$1
	shift
	timeout -s KILL 20 "$brokerd" "$@" >out 2>err </dev/null
	[ $? = "$code" ]
}

# What a start says of dead brokers that are not ours is no matter here.
lines() {
	grep -vc 'removed what the dead broker' err
}

# refused CODE PATTERN ARGS...: one error message with PATTERN
refused() {
	local code=$1 pattern=$2
	shift 2
	runs "$code" "$@" && [ "$(lines)" = 1 ] && said "^brokerd: .*$pattern" && [ ! -s out ]
}

works() {
	timeout -s KILL 20 "$client" "$@" 2>client.err </dev/null
}

complained() {
	! works "${@:2}" && grep -q -e "$1" client.err
}

# holds NAME: somebody maps a new buffer until there is a file go
holds() {
	rm -f go held
	"$client" create "$1" 1 acquire "$1" mark held wait go 2>holder.err </dev/null &
	holder=$!
	others+=("$holder")
	soon test -e held
}

released() {
	touch go
	wait "$holder"
}

reloads() {
	local before
	before=$(grep -c -e 'is read again' -e 'stays as it was$' err)
	kill -HUP "$broker"
	soon eval '[ "$(grep -c -e "is read again" -e "stays as it was$" err)" -gt '"$before"' ]'
}

# hangs: a reload of a file that is a pipe, and says what is in slow.conf once there is a file answer
hangs() {
	rm -f brokerd.conf opened answer
	mkfifo brokerd.conf
	(
		exec >brokerd.conf
		touch opened
		while [ ! -e answer ]; do sleep 0.02; done
		cat slow.conf
	) &
	others+=($!)
	kill -HUP "$broker"
	soon test -e opened
}

nothing_left() {
	[ -z "$(find /dev/shm -maxdepth 1 -name "gpubroker.$name*")" ] && [ -z "$(ls -A run)" ]
}

# ---- options ----

check "--help is on stdout" eval 'runs 0 --help && [ ! -s err ] && grep -q -e --check-config out'
check "--version is on stdout" eval 'runs 0 --version && [ ! -s err ] && grep -q "^brokerd (gpubroker) [0-9]" out'
check "output that cannot be written: exit 1" eval '"$brokerd" --help >/dev/full 2>err; [ $? = 1 ] && said "cannot be written"'
check "an unknown option: exit 2" refused 2 "'--bogus'" --bogus
check "an unknown letter: exit 2" refused 2 "'-x'" -qx
check "an option without its value: exit 2" refused 2 "'-c' needs a value" -c
check "a word too many: exit 2" refused 2 "'now' is one word too many" now
configure
for override in '--device gpu' '--instance a.b' '--socket here'; do
	# shellcheck disable=SC2086 # an option and its value
	check "$override: exit 2" refused 2 "'\?\(gpu\|instance\|here\)'\?" -c brokerd.conf $override
done
documented() {
	local option
	"$brokerd" --help | grep -oE -e '--[a-z-]+' | sort -u >options
	[ -s options ] || return 1
	while read -r option; do
		grep -q -e "^\.It .*Fl ${option#-}\( \|$\)" "${top_srcdir:?}/man/brokerd.8" || return 1
	done <options
}
check "the page has each option" documented

# ---- the configuration ----

check "a good one: exit 0" eval 'runs 0 -c brokerd.conf --check-config && [ ! -s err ] && [ "$(cat out)" = "brokerd.conf: ok" ]'
check "a named one that is not there: exit 2" refused 2 'nowhere.conf cannot be read' -c nowhere.conf --check-config
check "it is checked before a start, too" eval 'echo "log = loud" >bad.conf && refused 2 "bad.conf:1: " -c bad.conf'
bad() {
	printf '%b' "$2" >bad.conf
	refused 2 "bad.conf:$1" -c bad.conf --check-config
}
check "an unknown key: file:line" bad "2: 'sokcet' is no key" 'log = quiet\nsokcet = "/x"\n'
check "a key in a section where it is none: file:line" bad "1: 'bytes' is no key" 'board { bytes = 1 }\n'
check "an unknown user: file:line" bad "3: there is no user 'no-such-user'" 'creators {\n users = { root,\n no-such-user } }\n'
check "an unknown group: file:line" bad "1: there is no group" 'group = no-such-group\n'
check "a quota for nobody: file:line" bad "2: there is no user" '\nquota "no-such-user" { }\n'
check "a limit that is none: file:line" bad "2: '1X' is no limit" 'quota "default" {\n bytes = 1X }\n'
check "a mode that is none: file:line" bad "1: '0999' is no mode" 'mode = "0999"\n'
check "a time that is none: file:line" bad "1: 'soon' is no time" 'drain_timeout = soon\n'
check "a key twice: file:line" bad "3: 'log' is given twice" 'log = quiet\n\nlog = normal\n'
check "a section without its end: file:line" bad "1: the '{' of this line is never closed" 'board {\n buffers = 3\n'
check "garbage: file:line" eval 'head -c 4000 /dev/urandom >bad.conf; refused 2 "bad.conf:" -c bad.conf'
sample=$top_srcdir/contrib/brokerd.conf
check "the sample is good" runs 0 -c "$sample" --check-config
# its keys, out of their comments, with names that are here
sed "s/^#\([^ ]\)/\1/; s/\"alice\"/\"$(id -un)\"/; s/\"gpu\"\|\"gpubroker\"/\"$(id -gn)\"/" "$sample" >sample.conf
check "so it is with every key of it said" eval 'runs 0 -c sample.conf --check-config && grep -q "^socket" sample.conf'
keys_documented() {
	local key
	grep -oE '^\s*[a-z_]+ (=|\{|")' sample.conf | grep -oE '[a-z_]+' | sort -u >keys
	[ "$(wc -l <keys)" -ge 16 ] || return 1
	while read -r key; do
		grep -q -e "^\.It Cm $key\( \|$\)" -e "^\.Ss The section $key$" "${top_srcdir:?}/man/brokerd.conf.5" || return 1
	done <keys
}
check "the page has each key of the sample" keys_documented

# ---- serving ----

# one that is not its own anyway, where it may give files away
group=$(id -g)
[ "$(id -u)" = 0 ] && group=65534
configure 'mode = "0660"' "group = $group" 'drain_timeout = 9s'
# listens ADDRESS: a new socket of a service manager
listens() {
	rm -f messages
	: >messages
	"$listen" "$1" >messages 2>&1 &
	others+=($!)
	soon grep -q listening messages
}
listens "$work/notify"
received() {
	soon grep -q -e "$1" messages
}
check "it starts" start env NOTIFY_SOCKET="$work/notify" WATCHDOG_USEC=200000
check "the first line says what and where" said "^brokerd: '$name' serves 1 host device (host device 0) at $socket; gpubroker [0-9][0-9.]*$"
check "the service manager is told that it is ready" received "^READY=1 STATUS=serving at $socket$"
signs_of_life() {
	[ "$(grep -c '^WATCHDOG=1$' messages)" -ge 3 ]
}
check "and goes on receiving from it" soon signs_of_life
check "the socket has its mode and group" eval '[ "$(stat -c %a:%g "$socket")" = "660:$group" ]'
check "its directory was made, and only its user may write there" eval '[ "$(stat -c %a:%u run)" = "755:$(id -u)" ]'
check "the status file is its group's to read" eval '[ "$(stat -c %a:%g "/dev/shm/gpubroker.$name")" = "640:$group" ]'
found() {
	"$show" "$name" 2>&1 | grep -q "^broker $name: running, pid $broker"
}
check "broker-status finds it" found
check "clients work with it" works create a 1 acquire a
check "what one made stays for the next" works acquire a unlink a
check "a second brokerd there is refused" refused 1 'another brokerd serves' -c brokerd.conf --instance "$name-2"
check "the first goes on" works create b 1 acquire b unlink b

# ---- reloading ----

start_again() {
	stops TERM 0
	start
}
check "SIGTERM: the service manager is told" eval 'stops TERM 0 && received "^STOPPING=1 EXTEND_TIMEOUT_USEC=19000000 "'
check "the account is balanced" said 'buffers 2 created, 2 freed; memory 2 MiB allocated, 2 MiB freed; mappings 3 given, .* balanced$'
check "nothing is left" nothing_left
listens "@$name"
configure 'drain_timeout = 9s'
check "a name in the abstract namespace is told, too" eval \
	'start env NOTIFY_SOCKET="@$name" && received "^READY=1 STATUS=serving at $socket$"'
works create kept 1
configure 'drain_timeout = 9s' 'quota "default" { buffers = 1 }'
check "SIGHUP has the file read again" eval 'reloads && said "brokerd.conf is read again"'
check "the service manager is told both" eval 'received "^RELOADING=1 MONOTONIC_USEC=[0-9]* STATUS=reading brokerd.conf$" && received "^READY=1 "'
check "the new quota holds, and is named" complained 'may hold 1 buffer, holds 1 and asks for 1 more' create more 1
configure 'drain_timeout = 9s' 'quota "default" { buffers = lots }'
check "a broken file is said to be" eval 'reloads && said "brokerd.conf:5: .lots. is no limit.*; the configuration stays as it was$"'
check "the service manager is told so" received "^READY=1 STATUS=serving, with the old configuration: brokerd.conf:5: "
check "the quota of before holds" complained 'may hold 1 buffer, holds 1 and asks for 1 more' create more 1
rm brokerd.conf
check "a file that is gone is said to be" eval 'reloads && said "brokerd.conf cannot be read"'
check "the quota of before holds still" complained 'may hold 1 buffer, holds 1 and asks for 1 more' create more 1
configure 'drain_timeout = 9s' "quota \"$(id -u)\" { buffers = 2 }" 'quota "default" { buffers = 1 }'
check "a user's own quota goes before the default" eval 'reloads && works create more 1 && complained "may hold 2 buffers" create most 1'
configure 'mode = "0600"' 'board { buffers = 7 }' 'drain_timeout = 1h'
check "keys that need a restart are named" eval \
	'reloads && said "^brokerd: mode, board.buffers changed in brokerd.conf: that needs a restart"'
check "and stay as they were" eval '[ "$(stat -c %a "$socket")" = 666 ] && works create third 1 unlink third'
check "the rest of that file holds" eval 'works create most 1'
configure 'log = verbose'
check "so does how much is logged" eval 'reloads && works create v 1 unlink v && soon said "^brokerd: session [0-9]* is open: pid [0-9]* (.*status-client), uid $(id -u), revision [0-9]* of the protocol$"'
check "who leaves is logged too" soon said '^brokerd: session [0-9]* (pid [0-9]*, .*status-client) left$'
kept() {
	"$show" --json "$name" | grep -q "^ *\"pooled\": $1"
}
check "freed memory is kept for later" eval 'works create p 1 unlink p && soon kept "[1-9]"'
configure 'pool = 1K'
check "as much as the file says from now on" eval 'reloads && soon kept 0'
configure 'quota "default" { buffers = 4 }'
mv brokerd.conf slow.conf
check "while a reload hangs, all is as it was" eval 'hangs && works create r 1 create s 1 unlink r unlink s'
told_last() {
	tail -n 1 messages | grep -q -e "$1"
}
check "and the service manager knows" soon told_last '^RELOADING=1 '
rm brokerd.conf
configure 'quota "default" { buffers = 3 }'
before=$(grep -c 'is read again' err)
reloaded_twice() {
	[ "$(grep -c 'is read again' err)" = $((before + 2)) ]
}
kill -HUP "$broker"
# who is answered came to the loop after the signal
works create r 1 unlink r
check "a SIGHUP meanwhile has the file read once more" eval 'touch answer && soon reloaded_twice && soon told_last "^READY=1 "'
check "and what it says then holds" complained 'may hold 3 buffers, holds 3 and asks for 1 more' create r 1
check "a reload that hangs does not keep it from stopping" eval 'hangs && stops TERM 0 && said "balanced$"'
touch answer
rm brokerd.conf
configure 'log = quiet'
check "log = quiet: nothing at all is said" eval 'launch; soon test -S "$socket" && works create a 1 && stops TERM 0 && [ "$(lines)" = 0 ]'

# ---- who may ----

as_other() {
	setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
}
if [ "$(id -u)" = 0 ] && as_other test -x "$client" -a -r "$top_builddir/libbroker/.libs/libgpubroker.so" 2>/dev/null; then
	check_others() { check "$@"; }
else
	check_others() { skip "$1" "needs root and a build that others may read"; }
fi
configure 'creators { users = { 0 } }' 'quota 65534 { grants = 1 }'
start
other() {
	as_other timeout -s KILL 20 "$client" "$@" 2>client.err </dev/null
}
other_complained() {
	! other "${@:2}" && grep -q -e "$1" client.err
}
works create mine 1
check_others "another user is served, and held to mode bits" other_complained 'mode 0600 of .mine.* refuses' acquire mine
check_others "who is no creator may not create" other_complained 'uid 65534 may not create' create x 1
configure 'creators { groups = { 65534 } }'
check_others "a reload makes its group one" eval 'reloads && other create x 1 acquire x unlink x'
check_others "and takes it away again" eval 'configure "creators { }" && reloads && other_complained "may not create" create x 1'
configure 'mode = "0600"'
start_again
check_others "a socket's mode keeps others out" other_complained 'socket is closed to this process .uid 65534' create x 1
check "and lets its own user in" works create x 1

# ---- stopping ----

configure 'drain_timeout = "1s"'
start_again
holds held
kill -TERM "$broker"
check "past drain_timeout it ends, exit 1" ended 1
check "it says who holds what" said "^brokerd: pid [0-9]* (.*status-client, uid $(id -u)) still holds 1 mapping: "
check "and that it leaves it" said 'not all memory was returned within 1 second'
check "and that this is no balance" said 'NOT BALANCED$'
released
check "nothing is left after that either" nothing_left
configure 'drain_timeout = "60s"'
start
holds held
kill -TERM "$broker"
soon said '^brokerd: stopping: '
check "it waits for memory that is in use" eval '! gone'
check "new buffers are refused meanwhile" complained . create late 1
check "when that is returned it ends, exit 0" eval 'released; ended 0 && said " balanced$"'
start
holds held
kill -TERM "$broker"
soon said '^brokerd: stopping: '
check "a second SIGTERM ends it at once, exit 1" eval 'stops TERM 1 && said "a second signal"'
released
start env --default-signal=INT
check "SIGINT ends it, too" eval 'stops INT 0 && said "balanced$"'
configure 'drain_timeout = 0'
start
check "where nothing is in use no time is needed: exit 0" stops TERM 0
start env --default-signal=INT
kill -STOP "$broker"
kill -TERM "$broker"
kill -INT "$broker"
kill -CONT "$broker"
check "and two signals at once end it as one does" ended 0
configure 'drain_timeout = "60s"'
check "nothing is left" nothing_left

# ---- the socket ----

start
{
	kill -KILL "$broker"
	ended 137
} 2>/dev/null
check "a killed one leaves its socket" test -S "$socket"
# that it removed what the dead one left another test's broker may have done before it
check "the next takes its place" eval 'start && works create a 1 acquire a'
check "and stops clean" eval 'stops TERM 0 && nothing_left'
rm -rf run && mkdir run && echo precious >run/socket
check "what is no socket is not removed" eval 'refused 1 "is no socket" -c brokerd.conf && [ "$(cat run/socket)" = precious ]'
rm run/socket
"$activate" packets="$socket" -- "$(command -v sh)" -c 'touch listening && exec sleep 60' &
foreign=$!
others+=("$foreign")
soon test -e listening
check "somebody else's living socket is not replaced" eval 'refused 1 "another process listens" -c brokerd.conf && [ -S "$socket" ]'
kill -KILL "$foreign"
wait "$foreign" 2>/dev/null
chmod 777 run
check "a directory that others may write is refused" refused 1 "users other than the broker's may write" -c brokerd.conf
chmod 770 run
check "so is one that its group may write" refused 1 "users other than the broker's may write" -c brokerd.conf
rm -rf run
check "one whose parent is not there cannot be made" refused 1 'cannot be made' -c brokerd.conf --socket "$work/no/such/socket"

# ---- a socket that is passed on ----

mkdir run
check "a passed socket is served" eval 'start "$activate" packets="$socket" -- && said "at $socket, which was passed on; gpubroker [0-9][0-9.]*$"'
check "clients come that way" works create a 1 acquire a
check "its file is not brokerd's to remove" eval 'stops TERM 0 && [ -S "$socket" ] && [ ! -e "$socket.lock" ]'
rm -f run/*
check "of several the one with the name is served" eval \
	'start "$activate" names=a:gpubroker.socket:b stream="$work/run/1" packets="$socket" file="$work/run/3" -- && works create a 1'
check "and the others are closed" eval '! find "/proc/$broker/fd" -lname "*/run/3" | grep -q .'
stops TERM 0
# passed PATTERN WORDS...: what is passed is refused
passed() {
	rm -f run/*
	timeout -s KILL 20 "$activate" "${@:2}" -- "$brokerd" -c brokerd.conf >out 2>err </dev/null
	[ $? = 1 ] && said "$1" && [ ! -e "$socket" ]
}
check "several without the name are refused" passed 'none is named gpubroker.socket' names=a:b packets="$work/run/1" packets="$work/run/2"
check "a stream is refused" passed 'ListenSequentialPacket' stream="$work/run/1"
check "one that does not listen is refused" passed 'ListenSequentialPacket' silent="$work/run/1"
check "what is no socket is refused" passed 'ListenSequentialPacket' file="$work/run/1"
rm -f run/*
check "what is meant for another process is not taken" eval \
	'start "$activate" pid=1 packets="$work/run/1" -- && said "at $socket; gpubroker [0-9][0-9.]*$" && stops TERM 0'

# As gpubroker.socket and gpubroker.service have it: root's socket, served by a user of its own.
rm -rf run && mkdir run
configure 'quota "default" { buffers = 1 }'
chmod 644 brokerd.conf
start_as_other() {
	start "$activate" packets="$socket" -- "$(command -v setpriv)" --reuid=65534 --regid=65534 --clear-groups &&
		chmod 666 "$socket"
}
third() {
	setpriv --reuid=65533 --regid=65533 --clear-groups timeout -s KILL 20 "$client" "$@" 2>client.err </dev/null
}
check_others "a user without rights serves root's socket to a third one" eval \
	'start_as_other && third create a 1 acquire a && ! third create b 1 && grep -q "user 65533 may hold 1 buffer," client.err'
check_others "and stops clean" eval 'stops TERM 0 && said "balanced$"'

# A client may truncate the file of memory that it was given: to the host device that is a violation, which must not end the broker.
export GPUBROKER_EXPORT=ipc
rm -rf run && mkdir run
configure
cut_off() {
	local object
	object=$(find "/dev/shm/gpubroker.$name.mem" -type f -size 40M) && [ -n "$object" ] && truncate -s 4096 "$object"
}
check "a client's violation is reported, and survived" eval \
	'start env -u GPUB_HOST_STRICT && works create big 40 && cut_off && works unlink big && soon said VIOLATION && works create a 1 unlink a'
check "it stops after it" stops TERM 0

# As behind su(1): XDG_RUNTIME_DIR is another user's. In a /run of its own, which no other test sees.
system_broker_is_found() {
	unshare --mount bash -c '
		mount -t tmpfs -o mode=0755 tmpfs /run && mkdir -m 0755 /run/gpubroker && mkdir -m 0700 closed || exit 1
		printf "device = host\ninstance = %s\nsocket = /run/gpubroker/socket\nmode = 0666\n" "$1" >system.conf
		"$2" -c system.conf 2>system.err </dev/null &
		until grep -q "serves .* at " system.err || ! kill -0 $!; do sleep 0.05; done
		env -u GPUBROKER XDG_RUNTIME_DIR="$PWD/closed" setpriv --reuid=65533 --regid=65533 --clear-groups \
			timeout -s KILL 20 "$3" create x 1 unlink x 2>client.err
		found=$?
		kill $! && wait $! && exit $found' - "$name-s" "$brokerd" "$client"
}
if unshare --mount true 2>/dev/null; then
	check_others "another user's XDG_RUNTIME_DIR does not hide the system's broker" system_broker_is_found
else
	skip "another user's XDG_RUNTIME_DIR does not hide the system's broker" "needs a mount namespace"
fi

# ---- the name ----

rm -rf run
# squat: another broker, root's, lives under the name until let_go
squat() {
	rm -f go there
	"$run" --quiet --device host --name "$name" -- sh -c 'touch there; while [ ! -e go ]; do sleep 0.02; done' 2>run.err &
	squatter=$!
	others+=("$squatter")
	soon test -e there
}
let_go() {
	touch go
	wait "$squatter"
}
squat
check "a living broker's name is refused" refused 1 "a broker named '$name' runs already" -c brokerd.conf
check "and no socket is left of that" eval '[ -z "$(ls -A run)" ]'
let_go
# A file of another user: root finds no broker behind it, and nobody else may look.
plant() {
	as_other sh -c ': >"$1"' - "/dev/shm/gpubroker.$name" && [ -e "/dev/shm/gpubroker.$name" ]
}
check_others "another user's file of the name does not keep root from it" eval 'plant && start && stops TERM 0'
taken() {
	configure
	chmod 644 brokerd.conf
	squat
	mkdir own && chown 65534 own
	as_other timeout -s KILL 20 "$brokerd" -c brokerd.conf --socket "$work/own/socket" >out 2>err </dev/null
	[ $? = 1 ] && said "the name '$name' is taken: /dev/shm/gpubroker.$name belongs to root" && [ -z "$(ls -A own)" ]
	status=$?
	let_go
	return $status
}
check_others "who may not look is told whose it is" taken
# A broker of another user, alive: as one who waits for the restart of this one would do it.
squatted() {
	local code
	rm -f go there
	as_other "$run" --quiet --device host --name "$name" -- sh -c 'touch there; while [ ! -e go ]; do sleep 0.02; done' 2>run.err &
	squatter=$!
	others+=("$squatter")
	soon test -e there
	start && said "^brokerd: /dev/shm/gpubroker.$name belongs to uid 65534 (pid [0-9]*): this broker is named '\(.*-[0-9a-f]\{8\}\)' instead; .*remove" &&
		said "^brokerd: '${name:0:11}-[0-9a-f]*' serves"
	code=$?
	"$show" --list | grep -q "^${name:0:11}-[0-9a-f]\{8\} .* $(id -un)$" || code=1
	stops TERM 0 || code=1
	let_go
	return $code
}
check_others "another user's living broker of the name does not keep this one from it: it takes another, and says whose it is" squatted

plan

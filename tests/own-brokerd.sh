# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# own-brokerd.sh - a brokerd of a test script's own. The script sources it behind tap.sh, sets name (the broker's) and
# socket (a path), and works in a folder of its own, where brokerd.conf, out and err are this broker's. It has one brokerd
# at a time, whose pid is $broker. TEST_DEVICE: on those devices instead of the host device.

brokerd=${top_builddir:?}/broker/brokerd
broker=''

# own_folder: a folder of this broker's own, which is the current one from then on; sets work and socket
own_folder() {
	work=$(mktemp -d "$([ "$(id -u)" = 0 ] && echo /run || echo "${TMPDIR:-/tmp}")/gpub-$name-XXXXXX") || exit 1
	cd "$work" || exit 1
	chmod 755 .
	socket=$work/socket
	export GPUBROKER=unix:$socket
}

# own_cleanup PID...: for the script's end: kills the broker and those processes, lets the clients end that wait for the file end,
# and removes the folder and what is left in /dev/shm
own_cleanup() {
	local pid
	for pid in "$broker" "$@"; do
		[ -z "$pid" ] || kill -KILL "$pid"
	done
	touch "$work/end"
	wait
	rm -rf "$work" /dev/shm/gpubroker."$name"*
} 2>/dev/null

# configure LINES...: the configuration of what follows
configure() {
	printf 'device = %s\ninstance = "%s"\nsocket = "%s"\n' "${TEST_DEVICE:-host}" "$name" "$socket" >brokerd.conf
	[ $# -eq 0 ] || printf '%s\n' "$@" >>brokerd.conf
}

# launch [COMMAND...]: a brokerd, through COMMAND; it may not serve yet
launch() {
	: >err
	"$@" "$brokerd" -c brokerd.conf >out 2>err </dev/null &
	broker=$!
}

# gone: it has ended
gone() {
	! kill -0 "$broker" 2>/dev/null
}

is_up() {
	grep -q "serves .* at " err || gone
}

# start [COMMAND...]: the same, and true once it serves. One that should have ended is ended here.
start() {
	[ -z "$broker" ] || stops KILL 137
	launch "$@"
	soon is_up && ! gone
}

# ended CODE: it has ended so, within 10 seconds
ended() {
	local code
	soon gone || kill -KILL "$broker"
	wait "$broker"
	code=$?
	broker=''
	[ "$code" = "$1" ]
}

# stops SIGNAL CODE
stops() {
	kill -"$1" "$broker"
	ended "$2"
}

# shown KEY VALUE: in what $status, which is broker-status, says of the broker's process
shown() {
	timeout 30 "$status" --json "$name" >json 2>&1 && sed -n '/"broker_process": {/,/}/p' json | grep -qE "\"$1\": $2,?\$"
}

# event PATTERN: among the events that $ctl, which is broker-ctl, lists
event() {
	timeout 30 "$ctl" events >told 2>&1 && grep -qE "$1" told
}

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# containers.sh - clients in containers, and their broker outside: namespaces of their own for processes, mounts, network, IPC and the
# host's name. The directory of the socket is all that they share; with host devices /dev/shm, too. On a GPU: tests/gpu/containers.sh.
# shellcheck disable=SC2016 # what a check evaluates, or a shell inside, expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

built=$(cd "${top_builddir:?}" && pwd)
ctl=$built/broker/broker-ctl
run=$built/broker/broker-run
client=$built/tests/integration/status-client
name=containers-$$
device=${TEST_DEVICE:-host}
work=$(mktemp -d) || exit 1
socket=$work/gpubroker/socket
# shellcheck source=tests/own-brokerd.sh
. "$top_srcdir/tests/own-brokerd.sh"
inside='' room=''
cleanup() {
	touch "$work/go"
	[ -z "$broker" ] || stops KILL 137
	[ -z "$inside" ] || wait "$inside"
	[ -z "$room" ] || wait "$room"
	rm -rf "$work" /dev/shm/gpubroker."$name"*
} 2>/dev/null
trap cleanup EXIT
cd "$work" && mkdir -m 0755 gpubroker || exit 1

user=()
[ "$(id -u)" = 0 ] || user=(-r)
in_container() {
	unshare "${user[@]}" --pid --fork --kill-child --mount-proc --mount --net --ipc --uts "$@"
}
if ! in_container true 2>/dev/null; then
	echo "1..0 # SKIP this user may not make namespaces"
	exit 0
fi

check "two workers of a broker-run, each in a container of its own" eval \
	'GPUBROKER_MODULE_PATH=$built/kernels "$run" --name "$name-r" --device "$device" -n 2 -- \
		unshare "${user[@]}" -pf --kill-child --mount-proc -m -n -i -u "$built/examples/heat/heat" --size 64 --steps 20 >out 2>err &&
	grep -q "; balanced" err'

configure ''
# shellcheck disable=SC2119 # it may be given a command
start || echo "Bail out! no broker: $(cat err)"
export GPUBROKER=unix:$socket

# ---- two containers share a buffer ----

head -c 100000 /dev/urandom >written
check "one container writes a buffer" in_container "$ctl" load u written
check "another one reads it" eval 'in_container "$ctl" save u read >out 2>err && cmp written read'
"$ctl" unlink u

# As the pods of a Kubernetes claim: its driver names the directory that they share.
in_pod() {
	(
		unset GPUBROKER XDG_RUNTIME_DIR
		NVIDIA_DRA_LOCAL_IPC_DIR=$1 in_container "${@:2}"
	)
}
check "a container that is told of the directory by NVIDIA_DRA_LOCAL_IPC_DIR finds the broker there" in_pod "$work" "$client" create w 1 unlink w
[ -e /run/gpubroker/socket ] || check "in another directory there is none" eval \
	'! in_pod "$work/other" "$client" create w 1 2>err && grep -q "no broker is known" err'

# ---- numbers of processes, and deaths ----

in_container "$client" create v 1 acquire v mark ready wait go 2>client.err &
inside=$!
soon test -e ready || sed 's/^/# /' client.err
"$built/broker/broker-status" --json "$name" >json
pid=$(sed -n '/"sessions"/,$s/^ *"pid": \([0-9]*\),$/\1/p' json)
check "the broker sees its process by the number that the machine has for it" grep -q "^NSpid:.$pid.1$" "/proc/$pid/status"
check "doctor, inside: it is in a container, and served" eval \
	'in_container "$ctl" doctor >out 2>err && grep -q "^ok: .*(a container)" out && grep -q "a buffer was created and mapped" out'
kill -KILL "$pid"
is_forgotten() {
	"$built/broker/broker-status" --json "$name" >json && ! grep -q "\"pid\": $pid," json
}
check "its death is noticed" soon is_forgotten
wait "$inside" 2>/dev/null
inside=''
"$ctl" unlink v

# ---- the number that the owner of the memory has ----

owner=$(owner_of "$broker")

# with_number NUMBER COMMAND...: in a container, where the next process gets that number
with_number() {
	in_container sh -c 'echo "$1" >/proc/sys/kernel/ns_last_pid; shift; "$@"; exit $?' - $(($1 - 1)) "${@:2}"
}
if [ "${GPUBROKER_EXPORT-}" = vmm ]; then
	check "a process with the owner's number is served" eval 'with_number "$owner" "$client" create w 1 acquire w &&
		"$ctl" unlink w'
else
	check "a process with the owner's number is refused the memory, and told why" eval \
		'! with_number "$owner" "$client" create w 1 acquire w >out 2>err &&
		grep -q "is process $owner in its container, .* CUDA IPC takes the two for one: start the program anew.* --export vmm" err'
	check "memory that may grow comes by a descriptor, and is granted" eval \
		'with_number "$owner" "$ctl" create grows 4K --reserve 1M && with_number "$owner" "$client" acquire grows && "$ctl" unlink grows'
	"$ctl" unlink w
fi
check "the next number is served" with_number $((owner + 1)) "$client" create w 1 acquire w

# ---- what is not shared ----

with_own_shm() {
	in_container sh -c 'mount -t tmpfs none /dev/shm && "$@"' - "$@"
}
if [ "$device" = host ] && [ "${GPUBROKER_EXPORT-}" != vmm ]; then
	check "host devices need the broker's /dev/shm" eval \
		'! with_own_shm "$ctl" doctor >out 2>err && grep -q "^FAIL: a buffer on .*Share the broker.s (a container: --ipc=host" out'
	check "an acquire without it says what to share" eval \
		'! with_own_shm "$client" create unseen 1 acquire unseen >out 2>err && "$ctl" unlink unseen &&
		grep -q "the memory of the broker.s host device is in /dev/shm/gpubroker.$name.mem, .*Share the broker.s (a container: --ipc=host" err'
else
	check "a container with its own /dev/shm reads the buffer, too" eval \
		'"$ctl" load u written && with_own_shm "$ctl" save u read >out 2>err && cmp written read && "$ctl" unlink u'
fi
stops TERM 0

in_container "$run" --quiet --name "$name-c" --device "$device" -- "$client" mark up wait go 2>run.err &
room=$!
soon test -e up || sed 's/^/# /' run.err
check "a broker in a container refuses a client outside, which it does not see" eval \
	'! GPUBROKER=unix:$(echo /tmp/gpubroker-"$name"-c.*/socket) "$client" create w 1 >out 2>err && grep -q "the broker runs in a container, and cannot see the client" err'
touch go
wait "$room"
check "its own clients it serves" [ $? = 0 ]
room=''

# ---- process 1 of a container is the parent of all orphans ----

cat >orphans <<'END'
# Leaves orphans behind that end with status 9, and says in the file "none" that process 1 has reaped all of them.
for orphan in 1 2 3 4 5 6; do
	(sh -c 'echo >>orphaned; exit 9' &)
done
look=0
until [ "$(wc -l <orphaned)" = 6 ] && ! grep -qs '^State:.Z' /proc/[0-9]*/status; do
	look=$((look + 1))
	[ $look -lt 200 ] || exit
	sleep 0.05
done
: >none
END
reaps() { # COMMAND...
	rm -f none orphaned
	: >orphaned
	"$@" >out 2>err </dev/null
	status=$?
	[ -e none ]
}
check "broker-run as process 1 reaps them while its worker runs" reaps in_container "$run" --name "$name-1" --device host -- \
	sh -c 'sh ./orphans; exit 3'
check "and its exit status is its worker's, not an orphan's" eval '[ $status = 3 ] && [ "$(grep -c "ended with status" err)" = 1 ]'
configure ''
check "brokerd as process 1 reaps them" reaps in_container sh -c \
	'{ until [ -S gpubroker/socket ]; do sleep 0.05; done; sh ./orphans; kill -TERM 1; } & exec "$@"' - "$brokerd" -c brokerd.conf
check "and ends when it is told to" [ "$status" = 0 ]
if [ -x "$built/broker/broker-exporter" ]; then
	check "broker-exporter as process 1 leaves none either" reaps in_container sh -c \
		'{ until grep -qs serves err; do sleep 0.05; done; sh ./orphans; kill -TERM 1; } & exec "$@"' - \
		"$built/broker/broker-exporter" --listen 127.0.0.1:9
else
	skip "broker-exporter as process 1 leaves none either" "it is not built"
fi
plan

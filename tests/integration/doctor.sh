#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# doctor.sh - broker-ctl doctor's findings, word by word: a broker that is stopped, stopping or dead, a socket that refuses this
# user, quotas, the service, containers, control groups, limits, shared memory, driver and MPS. Devices: ctl.sh, driver.sh.
# shellcheck disable=SC2016,SC2034,SC2119 # what a check evaluates, and the shells in namespaces, expand then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
# not as root of a user namespace, who cannot do what points for root need
[ "$(id -u)" != 0 ] || own_shm

ctl=${top_builddir:?}/broker/broker-ctl
client=$top_builddir/tests/integration/status-client
activate=$top_builddir/tests/integration/activate
work=$(mktemp -d) || exit 1
name=doctor-$$
socket=$work/run/socket
user=$(id -un)
cleanup() {
	touch "$work/end"
	[ -z "$broker" ] || kill -KILL "$broker"
	wait
	rm -rf "$work" "/dev/shm/gpubroker.$name"*
} 2>/dev/null
trap cleanup EXIT
cd "$work" || exit 1
# shellcheck source=tests/own-brokerd.sh
. "$top_srcdir/tests/own-brokerd.sh"
mkdir run
chmod 755 "$work" run
export GPUBROKER=unix:$socket ctl work
unset CUDA_MPS_PIPE_DIRECTORY

# doctor CODE [COMMAND...]: it exits so, run through COMMAND; leaves its findings in found
doctor() {
	local code=$1
	shift
	"$@" timeout -s KILL 30 "$ctl" doctor >found 2>complaint </dev/null
	[ $? = "$code" ] && [ ! -s complaint ]
}

# has LINE: that line, word by word
has() {
	grep -qxF -e "$1" found || { sed 's/^/# /' found && return 1; }
}

# matches PATTERN: a whole line
matches() {
	grep -qxE -e "$1" found || { sed 's/^/# /' found && return 1; }
}

sound() {
	! grep '^FAIL' found
}

# ---- how the broker does ----

configure 'drain_timeout = 60s'
start || echo "# $(cat err)"
check "a broker in order: exit 0" eval 'doctor 0 && sound'
check "a buffer is made on its device, and is gone" eval \
	'matches "ok: the broker.s device 0 .* is device 0 here: a buffer was created and mapped" && [ -z "$("$ctl" list "doctor*" | tail -n +2)" ]'
process=$(broker_of "$broker")
kill -STOP "$process"
silent="FAIL: the broker does not answer in time: it is busy, or hangs"
stopped="warn: there is a broker '$name' of uid $(id -u), pid $broker, at unix:$socket, which is stopped by a signal: it answers nobody until it goes on; kill -CONT $process"
check "a broker that is stopped: exit 1, and its remedy" eval 'doctor 1 && has "$silent" && has "$stopped"'
kill -CONT "$process"
check "which helps" eval 'doctor 0 && sound'

"$client" create u 1 acquire u mark held wait end >client.out 2>&1 </dev/null &
holder=$!
soon test -e held
kill -TERM "$broker"
stopping() {
	doctor 1 && matches "FAIL: a buffer on the broker.s device 0 \(host device 0, here 0\): the broker is stopping: no buffers are made any more"
}
check "a broker that is stopping" soon stopping
touch end
ended 0 || echo "# it did not end"
rm -f end held
wait "$holder"

configure 'quota "default" { buffers = "0" }' 'quota "root" { buffers = "0" }'
start || echo "# $(cat err)"
check "what a quota refuses is no fault" eval 'doctor 0 && matches "warn: a buffer on the broker.s device 0 .*: user $(id -u) may hold 0 .*"'
stops TERM 0 || echo "# it did not stop"
configure 'drain_timeout = 60s'

start || echo "# $(cat err)"
stops KILL 137
check "a broker that is dead: its socket" eval 'doctor 1 && has "FAIL: no broker answers at unix:$socket: Connection refused; start one, or correct the address" &&
	! grep -q "there is a broker .$name." found'
start && stops TERM 0 || echo "# it did not go on"

rm -f "$socket"
"$activate" packets="$socket" -- "$(command -v sleep)" 60 &
listener=$!
soon test -e "$socket"
check "who listens and does not answer" eval 'doctor 1 && has "$silent"'
kill "$listener"
wait "$listener" 2>/dev/null
rm -f "$socket"

# ---- a broker of another user, for which another process listens, as systemd does ----

# managed COMMAND...: its socket is made by its parent, which is $broker; the broker itself, started through COMMAND, is $served
managed() {
	rm -f served
	start "$activate" packets="$socket" -- "$(command -v sh)" -c 'sh -c "LISTEN_PID=\$\$ exec \"\$@\"" sh "$@" & echo $! >served; wait $!' sh "$@"
	soon test -s served && chmod 0666 "$socket" && served=$(cat served)
}
# of UID GID COMMAND...: as that user, in that group alone
of() {
	setpriv --reuid="$1" --regid="$2" --clear-groups "${@:3}"
}
# nothing_false: no fault, and no warning but those that the machine itself may deserve
nothing_false() {
	sound && ! grep '^warn' found | grep -vE 'CUDA_DEVICE_MAX_CONNECTIONS|/dev/shm|control group|locked memory'
}
managed_by_nobody() {
	check "root is told nothing false of a broker of another user" eval \
		'managed setpriv --reuid=65534 --regid=65534 --clear-groups; doctor 0 && nothing_false'
	check "nor is a third user" eval 'doctor 0 of 65533 65533 && nothing_false'
	process=$(broker_of "$served")
	kill -STOP "$process"
	check "if it is stopped: which process that is" eval 'doctor 1 && matches "warn: there is a broker .$name. of uid 65534, pid $served, .*; kill -CONT $process"'
	kill -CONT "$process"
	kill "$served" && ended 0 && rm -f "$socket"
}
if [ "$(id -u)" = 0 ] && id -un 65534 >/dev/null && of 65534 65534 timeout -s KILL 30 "$ctl" --version >/dev/null 2>&1; then
	managed_by_nobody
else
	skip "root is told nothing false of a broker of another user" "needs root, and a build that everybody can read"
fi

# ---- the service ----

# unit LOAD ACTIVE SUB: what systemctl shows of a unit
unit() {
	printf 'LoadState=%s\nActiveState=%s\nSubState=%s\n' "$@"
}
# service LOAD ACTIVE SUB SOCKET: the doctor without a broker, where systemctl says that of the service, and of its socket's state
service() {
	mkdir -p bin
	{ unit "$1" "$2" "$3"; echo; unit "$1" "$4" "$4"; } >units
	printf '#!/bin/sh\n[ "$*" = "show -p LoadState -p ActiveState -p SubState gpubroker.service gpubroker.socket" ] && cat %s\n' \
		"$work/units" >bin/systemctl
	chmod +x bin/systemctl
	PATH=$work/bin:$PATH doctor 1
}
check "a service that has failed" eval 'service loaded failed failed active && has "warn: the service gpubroker has failed; journalctl -u gpubroker says why; systemctl restart gpubroker.socket gpubroker" &&
	! grep -q "nobody listens" out'
check "one that does not come up" eval 'service loaded activating auto-restart active &&
	has "warn: the service gpubroker does not come up: systemd tries again every few seconds; journalctl -u gpubroker says why; brokerd --check-config looks at its configuration"'
check "one whose socket has failed" eval 'service loaded inactive dead failed &&
	has "warn: nobody listens for the service gpubroker: gpubroker.socket is failed; systemctl restart gpubroker.socket gpubroker"'
check "one that is well" eval 'service loaded inactive dead active && has "ok: the service gpubroker is inactive (dead)" && ! grep -q "nobody listens" out'
check "one that is not installed" eval 'service not-found inactive dead inactive && ! grep -q "the service gpubroker" out'

# ---- a socket that this user may not open ----

start || echo "# $(cat err)"
# refuses PART MODE GROUP: the part of the path, its mode and its group, to nobody
refuses() {
	doctor 1 setpriv --reuid=65534 --regid=65534 --clear-groups &&
		has "FAIL: unix:$socket may not be used: $1 is closed to this process (uid 65534, groups 65534): it is uid 0's and group $3's, with mode $2; ask the user who runs the broker for access"
}
closed_paths() {
	chown root:users "$work/run" && chmod 0750 "$work/run"
	check "a directory that this user may not enter" refuses "$work/run" 0750 100
	chmod 0755 "$work/run" && chown root:users "$socket" && chmod 0660 "$socket"
	check "a socket that this user may not open" refuses "$socket" 0660 100
}
nogroup=$(id -g nobody 2>/dev/null)
# nobody is of the group 65534, may become one of users, and can run this build
[ "$(id -u)" != 0 ] || [ "$nogroup" != 65534 ] || ! getent group users | grep -q ':100:' ||
	! setpriv --reuid=65534 --clear-groups timeout -s KILL 30 "$ctl" --version >/dev/null 2>&1 || : >nobody
if [ -e nobody ]; then
	closed_paths
else
	skip "a directory that this user may not enter" "needs root, and a build that everybody can read"
fi

# ---- containers, control groups, limits ----

# inside MOUNTS: the doctor in a mount namespace where MOUNTS were made, as the user who IS named, if one is
inside() {
	unshare -m timeout -s KILL 30 sh -c "$1"' exec ${as:-} "$ctl" doctor' >found 2>complaint </dev/null
}
# an address where nobody is: the rest is looked at all the same
export GPUBROKER=unix:$work/none
namespaces() {
	GPUBROKER=unix:$socket check "a pid namespace of its own" eval 'doctor 0 unshare -pf --mount-proc && sound &&
		has "ok: this process is in a pid namespace of its own (a container): it can use a broker that is in there, too, or outside of it"'
	inside 'mount -t tmpfs -o size=2M none /dev/shm;'
	check "a small /dev/shm" has "warn: /dev/shm has only 2 MiB left, for brokers' status and host devices' memory: a write that finds no room there kills a process by SIGBUS; mount -o remount,size=8G /dev/shm (a container: --shm-size=8g)"
	group='mount -t tmpfs none /sys/fs/cgroup; cd /sys/fs/cgroup; echo $((1 << 30)) >memory.max; echo $((640 << 20)) >memory.current; echo 100 >pids.max; echo 90 >pids.current;'
	inside "$group"
	check "a control group with little memory left" has "warn: the control group /sys/fs/cgroup has memory.max 1073741824, and 402653184 left: a process with CUDA takes some hundred MiB, host devices' memory is charged to a group, and the kernel kills a process when it is used up; systemctl set-property UNIT MemoryMax=8G (a container: --memory=8g)"
	check "and few processes" has "warn: the control group /sys/fs/cgroup has pids.max 100, and 10 left: each worker is a process, and CUDA and the library start some threads in it, which fails when it is used up; systemctl set-property UNIT TasksMax=4096 (a container: --pids-limit=4096)"
	inside "$group"' echo 0 >memory.current; echo max >pids.max;'
	check "one with enough of both" has "ok: no control group of this process is short of memory or processes"

	# ---- driver and device files ----

	driver='mount -t tmpfs none /sys/module; mkdir /sys/module/nvidia; echo 580.159.04 >/sys/module/nvidia/version;'
	inside "$driver"
	check "a driver that is loaded" has "ok: the NVIDIA driver is loaded: 580.159.04; gpubroker needs 525.60.13 or newer"
	check "without its files" eval 'has "FAIL: CUDA cannot use /dev/nvidiactl here: No such file or directory; nvidia-modprobe -u -c 0 (a container: --gpus all; a service: DeviceAllow=)" || [ -e /dev/nvidiactl ]'
	driver+=' mount -t tmpfs none /dev; mkdir /dev/shm; cd /dev; touch null nvidiactl nvidia-uvm nvidia0 nvidia1; chmod 0666 *;'
	inside "$driver"
	check "files that this process may use" has "ok: this process may use the files of the driver in /dev"
	inside "$driver"' rm nvidia?;'
	# where a driver is, nvidia-modprobe makes the file again as soon as CUDA is asked
	check "no GPU's file" eval 'has "warn: the driver is loaded, and there is no /dev/nvidia0: this process sees no GPU; nvidia-modprobe -c 0 (a container: --gpus all)" || [ -e /proc/driver/nvidia/version ]'
	if [ -e nobody ]; then
		as='setpriv --reuid=65534 --clear-groups' inside "$driver"' chown root:users nvidiactl; chmod 0660 nvidiactl;'
		check "one that is a group's" has "FAIL: CUDA cannot use /dev/nvidiactl here: Permission denied; the group users may use it: usermod -aG users nobody, and log in anew"
	fi
	# as a device cgroup does, but with another errno
	inside 'mount -t tmpfs none /sys/module; mkdir /sys/module/nvidia; echo 580.159.04 >/sys/module/nvidia/version; mount -t tmpfs -o nodev none /dev; mkdir /dev/shm; cd /dev; touch null; mknod nvidiactl c 1 3; touch nvidia-uvm nvidia0;'
	check "one that is refused whatever its mode is" matches "FAIL: CUDA cannot use /dev/nvidiactl here: .*; .*"
}
export as=
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null && unshare -pf --mount-proc true 2>/dev/null; then
	namespaces
else
	skip "containers, control groups, driver and device files" "no namespaces can be made here"
fi
check "few descriptors" eval '(ulimit -Sn 20; doctor 1) && has "warn: this process may have only 20 descriptors: CUDA takes up to 43, and the library one for each timeline; ulimit -n 1024"'
check "no memory that may be locked" eval '(ulimit -l 0; doctor 1) && has "warn: this process may have only 0 bytes of locked memory: keys may be swapped out; ulimit -l 1024, or memlock in /etc/security/limits.conf"'
if grep -q __asan_init "$top_builddir/libbroker/.libs/libgpubroker.so" || grep -q __tsan_init "$top_builddir/libbroker/.libs/libgpubroker.so"; then
	skip "an address space that is limited" "the sanitizers need all of it"
else
	check "an address space that is limited" eval '(ulimit -v $((4 << 20)); doctor 1) && has "warn: this process may have only 4294967296 bytes of addresses: CUDA reserves more than all devices and the host have, and host devices map their memory; ulimit -v unlimited"'
fi

# ---- MPS ----

mkdir mps
export CUDA_MPS_PIPE_DIRECTORY=$work/mps
check "no MPS" eval 'doctor 1 && has "ok: no MPS daemon is at $work/mps/control: programs here run without MPS"'
: >mps/control
check "MPS whose daemon is gone" eval 'doctor 1 && has "warn: programs here run under MPS ($work/mps/control, where no daemon listens: they fail): one that is killed in a kernel takes the others with it, not the broker; to run them without it: echo quit | nvidia-cuda-mps-control"'
if [ "$(id -u)" = 0 ]; then
	chown 65534 mps/control
	check "MPS of another user" eval 'doctor 1 && matches "warn: the MPS pipe $work/mps/control belongs to another user: CUDA programs here may wait for that one.s to end; set CUDA_MPS_PIPE_DIRECTORY to a directory of this user.s own"'
else
	skip "MPS of another user" "needs root"
fi
unset CUDA_MPS_PIPE_DIRECTORY

# ---- JSON ----

# One finding a line of the other form, with the remedy by itself.
as_json() {
	doctor 1
	local lines
	lines=$(wc -l <found)
	! timeout -s KILL 30 "$ctl" doctor --json >json 2>complaint && [ ! -s complaint ] && [ "$(grep -c '"check": ' json)" = "$lines" ] &&
		[ "$(grep -cE '"verdict": "(ok|warn|FAIL)",?$' json)" = "$lines" ] && [ "$(head -c 1 json)" = '[' ]
}
GPUBROKER=unix:$socket
chmod 0755 run && chown "$(id -u)" "$socket" && chmod 0600 "$socket"
process=$(broker_of "$broker")
kill -STOP "$process"
# A broker that comes or goes between the two runs is a finding more or less, so a difference is looked at again.
same_findings() {
	as_json || as_json || as_json
}
check "as JSON: the same findings" same_findings
check "with check and remedy" eval 'grep -A 3 "\"check\": \"brokers\"" json | grep -qF "\"remedy\": \"kill -CONT $process\""'
kill -CONT "$process"
check "--json is doctor's" eval '! "$ctl" unlink u --json 2>complaint && grep -q "takes no --json" complaint'
stops TERM 0 || echo "# it did not stop"
check "nothing is left in shared memory" test -z "$(find /dev/shm -name "*$name*")"
plan

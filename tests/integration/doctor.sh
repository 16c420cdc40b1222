#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# doctor.sh - broker-ctl doctor's findings, word by word: a broker that is stopped, stopping or dead, a socket that refuses this
# user, containers, control groups, limits, shared memory, driver and MPS. A healthy broker and its devices: ctl.sh, driver.sh.
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
kill -STOP "$broker"
stopped="FAIL: the broker (pid $broker of $user) is stopped by a signal: it answers nobody until it goes on; kill -CONT $broker"
check "a broker that is stopped: exit 1, and its remedy" eval 'doctor 1 && has "$stopped"'
kill -CONT "$broker"
check "which helps" eval 'doctor 0 && sound'

"$client" create u 1 acquire u mark held wait end >client.out 2>&1 </dev/null &
holder=$!
soon test -e held
kill -TERM "$broker"
stopping() {
	doctor 0 && grep -q '^warn: the broker is stopping' found
}
check "a broker that is stopping: whom it waits for" eval 'soon stopping && has "warn: the broker is stopping: it makes no more buffers, and ends when 1 process has returned what is mapped: pid $holder (status-client); broker-status $name shows what they map; a service is started anew by: systemctl restart gpubroker"'
touch end
ended 0 || echo "# it did not end"
rm -f end held

start || echo "# $(cat err)"
dead=$broker
stops KILL 137
left="warn: the broker '$name' of $user, pid $dead, is dead, and what it left is still in /dev/shm, with the memory of its host devices; start it again, and it goes on with its events; others remove it ten minutes after its last change"
check "a broker that is dead: its socket" eval 'doctor 1 && has "FAIL: no broker answers at unix:$socket: Connection refused; start one, or correct the address; a dead broker left that socket, and the next one there removes it: systemctl restart gpubroker, or brokerd"'
check "and its leftovers" has "$left"
"$top_builddir/broker/broker-run" --device host -- true 2>/dev/null
check "which stay when another broker begins" test -e "/dev/shm/gpubroker.$name"
check "and go with the next one of that name" eval 'start && stops TERM 0 && ! doctor 0; ! has "$left"'

rm -f "$socket"
"$activate" packets="$socket" -- "$(command -v sleep)" 60 &
silent=$!
soon test -e "$socket"
check "who listens and does not answer" eval 'doctor 1 && has "FAIL: unix:$socket is served by pid $silent of $user, which does not answer within 5 seconds: it hangs, or is no broker; see what it does: broker-status, journalctl -u gpubroker"'
kill "$silent"
wait "$silent" 2>/dev/null
rm -f "$socket"

# ---- a broker for which another process listens, as systemd does ----

# managed [COMMAND...]: its socket is made by its parent, which is $broker; the broker itself, started through COMMAND, is $served
managed() {
	rm -f served
	start "$activate" packets="$socket" -- "$(command -v sh)" -c 'sh -c "LISTEN_PID=\$\$ exec \"\$@\"" sh "$@" & echo $! >served; wait $!' sh "$@"
	soon test -s served && chmod 0666 "$socket" && served=$(cat served)
}
# ends: it ends in order, and its parent with it
ends() {
	kill "$served" && ended 0 && rm -f "$socket"
}
# answers UID: the broker that answers is that process, of that user
answers() {
	has "ok: the broker '$name' answers at $socket: pid $served of $(id -un "$1"), whom this user may trust; nobody else can put a socket there"
}
there="ok: the status file is there for broker-status, and up to date: running"
check "who answers is the broker, not its parent, which listens" eval 'managed; doctor 0 && sound && answers "$(id -u)"'
check "its status file may be relied on" has "$there"
kill -STOP "$served"
check "if it is stopped: which process that is" eval \
	'doctor 1 && has "FAIL: the broker '"'\$name'"' (pid $served of $user) is stopped by a signal: it answers nobody until it goes on; kill -CONT $served"'
kill -CONT "$served"
ends || echo "# it did not end"
check "the limit of descriptors is its own" eval 'managed sh -c "ulimit -n 700; exec \"\$@\"" sh; doctor 0 &&
	has "warn: the broker may have only 700 descriptors, of which a session takes two and a timeline two more; start it with a higher limit: ulimit -Hn, or LimitNOFILE= of its service"'
ends || echo "# it did not end"

# of UID GID COMMAND...: as that user, in that group alone
of() {
	setpriv --reuid="$1" --regid="$2" --clear-groups "${@:3}"
}
managed_by_nobody() {
	check "root is told of a broker of another user: its process, and that its status file may be relied on" eval \
		'managed setpriv --reuid=65534 --regid=65534 --clear-groups; doctor 0 && sound && answers 65534 && has "$there"'
	check "so is a third user, in the group that may read the file" eval 'doctor 0 of 65533 65534 && answers 65534 && has "$there"'
	check "one that is not in it: that broker-status asks the broker, which it does" eval 'doctor 0 of 65533 65533 && answers 65534 &&
		has "ok: the status file is not for this user: broker-status asks the broker instead, and shows what this user may see" &&
		of 65533 65533 "$top_builddir/broker/broker-status" "$name" >status && grep -q "^broker $name: running, pid $served," status'
	check "a file that others may write is anybody's" eval 'chmod 0666 "/dev/shm/gpubroker.$name" && doctor 0 &&
		has "warn: the status file of that name may be anybody'"'"'s: its owner is $(id -un 65534); do not rely on broker-status"'
	check "so is one of a user who is not the broker's" eval 'chmod 0644 "/dev/shm/gpubroker.$name" && mv "/dev/shm/gpubroker.$name" kept &&
		of 65533 65533 sh -c "cat kept >/dev/shm/gpubroker.$name" && doctor 0 &&
		has "warn: the status file of that name may be anybody'"'"'s: its owner is $(id -un 65533 2>/dev/null || echo uid 65533); do not rely on broker-status"'
	rm -f "/dev/shm/gpubroker.$name" kept
	ends || echo "# it did not end"
}
if [ "$(id -u)" = 0 ] && id -un 65534 >/dev/null && of 65534 65534 timeout -s KILL 30 "$ctl" --version >/dev/null 2>&1; then
	managed_by_nobody
else
	skip "root is told of a broker of another user: its process, and that its status file may be relied on" "needs root, and a build that everybody can read"
fi

# ---- a socket that this user may not open ----

start || echo "# $(cat err)"
# as GROUP...: as nobody with these groups
as() {
	doctor 1 setpriv --reuid=65534 --regid="$1" --clear-groups
}
# refuses PART IDS MODE GROUP REMEDY: the part of the path, who asks, its mode, its group and what helps
refuses() {
	has "FAIL: unix:$socket may not be used: $1 is closed to this process ($2): it is uid 0's and group $4's, with mode $3; $5"
}
# closed_paths
closed_paths() {
	chown root:users "$work/run" && chmod 0750 "$work/run"
	check "a directory that a group may enter: which, and how one becomes a member" eval \
		'as 65534 && refuses "$work/run" "uid 65534, groups 65534" 0750 100 "the group users may use it: usermod -aG users nobody, and log in anew"'
	chown "root:$nogroup" "$work/run"
	check "to its member that was none when the session began: to log in anew" eval \
		'as 100 && refuses "$work/run" "uid 65534, groups 100" 0750 "$nogroup" "nobody is in the group $(id -gn nobody), which may use it, but was put there after this process'"'"'s session began: log in anew, or try newgrp $(id -gn nobody)"'
	chown root:root "$work/run" && chmod 0700 "$work/run"
	check "a directory that no group may enter" eval \
		'as 65534 && refuses "$work/run" "uid 65534, groups 65534" 0700 0 "no group may use it: run as root, or have that user open it to a group: chgrp GROUP $work/run; chmod g+x $work/run"'
	chmod 0755 "$work/run" && chown root:users "$socket" && chmod 0660 "$socket"
	check "a socket that a group may open" eval \
		'as 65534 && refuses "$socket" "uid 65534, groups 65534" 0660 100 "the group users may use it: usermod -aG users nobody, and log in anew"'
	chown 65534 "$socket" && chmod 0400 "$socket"
	check "one that is its own, and read-only" eval \
		'as 65534 && grep -qF "; it is this user'"'"'s own: chmod u+w $socket" found'
}
nogroup=$(id -g nobody 2>/dev/null)
# nobody is of the group 65534, may become one of users, and can run this build
[ "$(id -u)" != 0 ] || [ "$nogroup" != 65534 ] || ! getent group users | grep -q ':100:' ||
	! setpriv --reuid=65534 --clear-groups timeout -s KILL 30 "$ctl" --version >/dev/null 2>&1 || : >nobody
if [ -e nobody ]; then
	closed_paths
else
	skip "a directory that a group may enter: which, and how one becomes a member" "needs root, and a build that everybody can read"
fi

# ---- containers, control groups, limits ----

# inside MOUNTS: the doctor in a mount namespace where MOUNTS were made, as the user who IS named, if one is
inside() {
	unshare -m timeout -s KILL 30 sh -c "$1"' exec ${as:-} "$ctl" doctor' >found 2>complaint </dev/null
}
# an address where nobody is: the rest is looked at all the same
export GPUBROKER=unix:$work/none
namespaces() {
	GPUBROKER=unix:$socket check "a pid namespace of its own" eval 'doctor 0 unshare -pf --mount-proc &&
		has "ok: this process is in a pid namespace of its own (a container): the broker is outside of it" &&
		matches "ok: the broker .* answers at .*: a process outside of this container of .*"'
	check "a pid namespace without a broker" eval 'doctor 1 unshare -pf --mount-proc &&
		has "ok: this process is in a pid namespace of its own (a container): it can use a broker that is in there, too, or outside of it"'
	inside 'mount -t tmpfs -o size=2M none /dev/shm;'
	check "a small /dev/shm" has "warn: /dev/shm has only 2 MiB left, of 2 MiB: a write that finds no room there kills a process by SIGBUS; mount -o remount,size=8G /dev/shm (a container: --shm-size=8g)"
	group='mount -t tmpfs none /sys/fs/cgroup; cd /sys/fs/cgroup; echo $((1 << 30)) >memory.max; echo $((640 << 20)) >memory.current; echo 100 >pids.max; echo 90 >pids.current;'
	inside "$group"
	check "a control group with little memory left" has "warn: the control group /sys/fs/cgroup may have 1 GiB of memory, and has 384 MiB left: each process with CUDA takes some hundred MiB of it, and the kernel kills a process when it is used up; systemctl set-property UNIT MemoryMax=8G (a container: --memory=8g)"
	check "and few processes" has "warn: the control group /sys/fs/cgroup may have 100 processes and threads, and has 90: workers, CUDA and the library start some, and fail where they cannot; systemctl set-property UNIT TasksMax=4096 (a container: --pids-limit=4096)"
	inside "$group"' printf "oom 3\noom_kill 2\n" >memory.events;'
	check "one whose processes the kernel has killed" has "warn: the kernel has killed 2 processes of the control group /sys/fs/cgroup, which may have 1 GiB of memory, because it was used up; systemctl set-property UNIT MemoryMax=8G (a container: --memory=8g)"
	inside "$group"' echo 0 >memory.current; echo 1 >pids.current;'
	check "one with enough of both" eval 'has "ok: the control group may have 1 GiB of memory, and has 1 GiB left" && has "ok: the control group may have 100 processes and threads, and has 1"'

	# ---- driver and device files ----

	driver='mount -t tmpfs none /sys/module; mkdir /sys/module/nvidia; echo 580.159.04 >/sys/module/nvidia/version;'
	inside "$driver"
	check "a driver that is new enough" has "ok: the NVIDIA driver is loaded: 580.159.04"
	check "without its files" eval 'has "warn: there is no /dev/nvidiactl: CUDA cannot reach the driver without it; nvidia-modprobe -u -c 0 (a container: --gpus all)" || [ -e /dev/nvidiactl ]'
	inside "$driver"' echo 525.60.12 >/sys/module/nvidia/version;'
	check "one that is too old" has "FAIL: the NVIDIA driver that is loaded is 525.60.12: gpubroker calls functions of CUDA 12.0, which came with 525.60.13; install driver 525.60.13 or newer"
	driver+=' mount -t tmpfs none /dev; mkdir /dev/shm; cd /dev; touch null nvidiactl nvidia-uvm nvidia0 nvidia1; chmod 0666 *;'
	inside "$driver"
	# where a driver is, CUDA has the other GPUs' files made
	check "files that this process may use" matches "ok: this process may read and write /dev/nvidiactl, /dev/nvidia-uvm and the files of [2-9][0-9]* GPUs"
	inside "$driver"' rm nvidia?;'
	# where a driver is, nvidia-modprobe makes the file again as soon as CUDA is asked
	check "no GPU's file" eval 'has "warn: the driver is loaded, and there is no /dev/nvidia0: this process sees no GPU; nvidia-modprobe -c 0 (a container: --gpus all)" || [ -e /proc/driver/nvidia/version ]'
	if [ -e nobody ]; then
		as='setpriv --reuid=65534 --clear-groups' inside "$driver"' chown root:users nvidiactl; chmod 0660 nvidiactl;'
		check "one that is a group's" has "FAIL: /dev/nvidiactl is closed to this process: it is root's and group 100's, with mode 0660, and CUDA needs to read and write it; the group users may use it: usermod -aG users nobody, and log in anew"
	fi
}
export as=
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null && unshare -pf --mount-proc true 2>/dev/null; then
	namespaces
else
	skip "containers, control groups, driver and device files" "no namespaces can be made here"
fi
check "few descriptors" eval '(ulimit -Sn 20; doctor 1) && has "warn: this process may have only 20 descriptors: CUDA takes up to 43, and the library one for each timeline; ulimit -n 1024"'
check "no memory that may be locked" eval '(ulimit -l 0; doctor 1) && has "warn: this process may lock only 0 B of memory, so keys may be swapped out; ulimit -l 1024, or memlock in /etc/security/limits.conf"'
if grep -q __asan_init "$top_builddir/libbroker/.libs/libgpubroker.so" || grep -q __tsan_init "$top_builddir/libbroker/.libs/libgpubroker.so"; then
	skip "an address space that is limited" "the sanitizers need all of it"
else
	check "an address space that is limited" eval '(ulimit -v $((4 << 20)); doctor 1) && has "warn: this process may use only 4 GiB of addresses: CUDA reserves more than all devices and the host have, and does not start without; ulimit -v unlimited"'
fi

# ---- MPS ----

mkdir mps
export CUDA_MPS_PIPE_DIRECTORY=$work/mps
check "MPS that is set and not there" eval 'doctor 1 && has "warn: CUDA_MPS_PIPE_DIRECTORY is '"'\$work/mps'"', and no MPS daemon is there: programs here run without MPS; nvidia-cuda-mps-control -d, or unset CUDA_MPS_PIPE_DIRECTORY"'
: >mps/control
check "MPS that is there" eval 'doctor 1 && has "warn: programs here run under MPS ($work/mps/control): one that is killed in a kernel takes the others with it, not the broker; to run them without it: echo quit | nvidia-cuda-mps-control"'
true &
echo $! >mps/nvidia-cuda-mps-control.pid
wait $!
check "MPS whose daemon is gone" eval 'doctor 1 && has "warn: the MPS daemon of $work/mps/control (pid $(cat mps/nvidia-cuda-mps-control.pid)) is gone, and its pipe is still there: CUDA programs here wait for it, and fail; rm -r $work/mps; nvidia-cuda-mps-control -d"'
if [ "$(id -u)" = 0 ]; then
	chown 65534 mps/control
	check "MPS of another user" eval 'doctor 1 && matches "warn: the MPS pipe $work/mps/control belongs to [a-z0-9 ]+: CUDA programs of another user may wait there for that one.s to end; set CUDA_MPS_PIPE_DIRECTORY to a directory of this user.s own"'
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
kill -STOP "$broker"
check "as JSON: the same findings" as_json
check "with check and remedy" eval 'grep -A 3 "\"check\": \"listener\"" json | grep -qF "\"remedy\": \"kill -CONT $broker\""'
kill -CONT "$broker"
check "--json is doctor's" eval '! "$ctl" unlink u --json 2>complaint && grep -q "takes no --json" complaint'
stops TERM 0 || echo "# it did not stop"
check "nothing is left in shared memory" test -z "$(find /dev/shm -name "*$name*")"
plan

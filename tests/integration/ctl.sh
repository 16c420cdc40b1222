#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctl.sh - broker-ctl beside a real broker, as its own user: what each command does, what it refuses, its exit statuses, and
# what the doctor finds. What other users may do with it is held elsewhere.
# shellcheck disable=SC2016 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

run=${top_builddir:?}/broker/broker-run
ctl=$top_builddir/broker/broker-ctl
show=$top_builddir/broker/broker-status
client=$top_builddir/tests/integration/status-client
name=ctl-$$
work=$(mktemp -d) || exit 1
broker=''
cleanup() {
	touch "$work/go" "$work/end"
	[ -n "$broker" ] && wait
	rm -rf "$work"
} 2>/dev/null
trap cleanup EXIT
cd "$work" || exit 1

# ctl CODE ARGS...: runs broker-ctl, leaves out and err; true when it exits with CODE
ctl() {
	local code=$1
	shift
	timeout -s KILL 30 "$ctl" "$@" >out 2>err </dev/null
	[ $? = "$code" ]
}

said() {
	grep -qe "$1" err
}

has() {
	grep -qe "$1" out
}

# done_ ARGS...: it was done, and nothing was said
done_() {
	ctl 0 "$@" && [ ! -s out ] && [ ! -s err ]
}

# refused CODE PATTERN ARGS...: one error message with PATTERN
refused() {
	local code=$1 pattern=$2
	shift 2
	ctl "$code" "$@" && [ ! -s out ] && [ "$(wc -l <err)" = 1 ] && said '^broker-ctl: ' && said "$pattern"
}

# status PATTERN: soon a line of the table
in_table() {
	"$show" "$name" | grep -qE -e "$1"
}
status() {
	soon in_table "$1"
}

# field NAME KEY: a number of that buffer in the JSON
field() {
	"$show" --json "$name" | awk -v name="\"$1\"," -v key="\"$2\":" '
		$1 == "\"name\":" { found = $2 == name } found && $1 == key { print $2 ~ /true/ ? 1 : $2 + 0; exit }'
}

# soon_is NAME KEY VALUE
is() {
	[ "$(field "$1" "$2")" = "$3" ]
}
soon_is() {
	soon is "$@"
}

# session PID: the number of its session
session() {
	"$show" --json "$name" | awk -v pid="$1," '
		$1 == "\"sessions\":" { on = 1 } on && $1 == "\"session\":" { id = $2 + 0 }
		on && $1 == "\"pid\":" && $2 == pid { print id; exit }'
}

has_session() {
	[ -n "$(session "$1")" ]
}

# ---- the command line ----

export GPUBROKER=unix:$work/none
check "no command: exit 2" refused 2 'no command'
check "an unknown command: exit 2" refused 2 "'repair' is no command" repair
check "an unknown option: exit 2" refused 2 "'--bogus'" --bogus doctor
check "an unknown letter: exit 2" refused 2 "'-x'" unlink -x u
check "an option without its value: exit 2" refused 2 "'--timeout' needs a value" drain u --timeout
check "an option of another command: exit 2" refused 2 'unlink takes no --timeout, which is for drain' unlink u --timeout 1
check "too few arguments: exit 2" refused 2 'create takes 2 arguments and got 1: broker-ctl create NAME SIZE' create u
check "too many arguments: exit 2" refused 2 'evict takes 1 argument and got 2: ' evict 1 2
check "no name: exit 2" refused 2 'drain takes 1 argument or more and got 0: broker-ctl drain NAME \.\.\.$' drain
check "arguments where none are wanted: exit 2" refused 2 'doctor takes 0 arguments and got 1: broker-ctl doctor$' doctor x
for size in 0 1X x 1M@ 1M@64 1M@x 1M@-1 99999999999999999999 ''; do
	check "create x '$size': exit 2" refused 2 . create x "$size"
done
for mode in 888 1000 0o7 u+x +q g r,w 'u+r,' 'u+r,,g+r' '' 0640x; do
	check "chmod '$mode': exit 2" refused 2 'is no mode' chmod "$mode" x
done
check "create --mode takes octal alone: exit 2" refused 2 'is no mode' create x 1M --mode u+r
for owner in '' : root: no-such-user-here :no-such-group-here 4294967295 -1 1x; do
	check "chown '$owner': exit 2" refused 2 . chown -- "$owner" x
done
for time in '' x 1w 1e3 -1 . 1.2.3 inf 99999999999; do
	check "drain --timeout '$time': exit 2" refused 2 time drain x "--timeout=$time"
done
for time in 0 0s 0.0001 ever; do
	check "ticket --lifetime '$time': exit 2" refused 2 . ticket x --lifetime "$time"
done
check "rights that are none: exit 2" refused 2 'are no rights' ticket x --rights rwx
check "a session that is no number: exit 2" refused 2 'is no session' evict me
check "a name that is none: exit 2" refused 2 'may hold only' unlink 'a b'
check "--help is on stdout and names commands and options" eval \
	'ctl 0 --help && [ ! -s err ] && has "^  drain " && has "^  doctor " && has --lifetime'
check "--version is on stdout" eval 'ctl 0 --version && [ ! -s err ] && has "^broker-ctl (gpubroker) [0-9]"'
check "output that cannot be written: exit 1" eval '"$ctl" --help >/dev/full 2>err; [ $? = 1 ] && said "cannot be written"'
check "no broker: exit 1" refused 1 'no broker answers' unlink x
check "an address that is none: exit 1" refused 1 'is no broker.s address or name' --address he/re unlink x
unset GPUBROKER

# ---- a broker, whose one worker gives its address away ----

GPUB_HOST_MEMORY=8M timeout -s KILL 600 "$run" --quiet --name "$name" --device host:2 -- \
	sh -c 'echo "$GPUBROKER" >address.new; mv address.new address; while [ ! -e end ]; do sleep 0.02; done' 2>run.err &
broker=$!
if ! soon test -e address; then
	echo "Bail out! the broker does not start: $(cat run.err)"
	exit 1
fi
address=$(cat address)
check "--address says which broker" done_ --address "$address" create first 64K
check "it may stand behind the command" done_ unlink first --address="$address"
export GPUBROKER=$address

# client WORDS...: a client in the background; $pid is what to wait for, and its own pid is in the file pid
client() {
	timeout -s KILL 60 sh -c 'echo $$ >pid; exec "$@"' - "$client" "$@" >client.out 2>client.err </dev/null &
	pid=$!
}

check "create makes a buffer" done_ create u 64K
check "of that size, on that device" eval 'done_ create v 1536K@1 && status "^v +1.5M +1 +live"'
check "with mode 0600 unless told" soon_is u mode $((0600))
check "with the mode that it is told" eval 'done_ create w 1 --mode 0640 && soon_is w mode $((0640))'
check "with a timeline" eval 'done_ create t 4K --timeline && soon is t timeline 1'
check "with memory of its own" eval 'done_ create own 1 --dedicated && soon_is own alone 1 && done_ chmod 0644 own'
check "without, small ones of a kind share it, and stay of that kind" eval \
	'done_ create s1 1 && done_ create s2 1 && refused 1 "shares its memory.*broker-ctl create --dedicated" chmod 0644 s1 && soon_is s1 mode $((0600))'
check "until they are alone in it" eval 'done_ drain s2 && done_ chmod 0644 s1 && soon_is s1 mode $((0644))'
done_ unlink own s1
check "a name that is taken: exit 1" refused 1 "'u' is taken" create u 1
check "a device that is not there: exit 1" refused 1 'no device 2' create x 1@2
check "a buffer larger than the device: exit 1, also with --wait" refused 1 'of 9 MiB is larger than the whole device, which has 8 MiB' create x 9M --wait 20
check "no memory: exit 1" refused 1 . create x 8M
check "no memory within the time: exit 3" refused 3 'no memory' create x 8M --wait 0.2
done_ create big 6M@1
ctl 0 create more 5M@1 --wait 20s &
waiter=$!
status '1 waiting request' || echo "# nobody waits"
check "memory that is waited for is not used" status '^ +1 +host device 1 +8M +[67][.0-9]*M '
done_ unlink big
check "memory that comes within the time" wait "$waiter"
check "is the buffer's" status '^more +5M'
done_ unlink more

check "chmod sets a mode" eval 'done_ chmod 0644 u && soon_is u mode $((0644))'
check "or changes one" eval 'done_ chmod g+w,o-r u && soon_is u mode $((0660))'
check "in the order in which it is told" eval 'done_ chmod a=,u+r,o=rw,o-w u && soon_is u mode $((0404))'
check "for nobody named is for all" eval 'done_ chmod =r u && soon_is u mode $((0444))'
check "chmod of several" eval 'done_ chmod 0606 u v && soon_is u mode $((0606)) && soon_is v mode $((0606))'
check "one that is not there does not keep the others: exit 1" eval \
	'refused 1 "no buffer .nothing." chmod 0600 nothing u && soon_is u mode $((0600))'
check "chown to oneself and one's group" eval 'done_ chown "$(id -un):$(id -g)" u && soon_is u group "$(id -g)"'
check "chown to a group alone" eval 'done_ chown ":$(id -gn)" u && soon_is u owner "$(id -u)"'
check "chown by number" done_ chown "$(id -u)" u

check "seal refuses leases that write from then on" eval 'done_ create p1 1 && done_ create p2 1 && done_ seal p1 && soon_is p1 sealed 1 && soon_is p2 sealed 0'
check "rename takes no name from another" \
	eval 'refused 1 "the name .p2. is taken: .*--replace" rename p1 p2 && refused 2 "drain takes no --replace" drain p1 --replace'
check "unless it is told to" eval 'done_ rename --replace p1 p2 && ! ctl 0 unlink p1 && soon_is p2 sealed 1'
check "create with a reserve, and resize" eval 'done_ create grows 1M --reserve 8M && soon_is grows growable 1 && done_ resize grows 3M && soon_is grows bytes $((3 << 20))'
check "stat shows the new size and the reserve" eval 'ctl 0 stat grows && has "^  size  *3 MiB$" && has "^  reserve  *8 MiB$"'
check "also as JSON" eval 'ctl 0 stat grows --json && has "\"bytes\": $((3 << 20))," && has "\"reserve\": $((8 << 20))$"'
check "which it does not of what keeps its size" eval 'ctl 0 stat p2 && ! has reserve && ctl 0 stat p2 --json && ! has reserve'
check "not beyond the reserve" refused 1 "may grow to 8M\|may grow to 8 MiB" resize grows 9M
check "nor to nothing, nor without a size" eval 'refused 1 "at least 1 byte" resize grows 0 && refused 2 "is not a size" resize grows large && refused 2 "takes 2 arguments" resize grows'
check "an event says so, and another what was refused" eval 'ctl 0 events "$name" --buffer grows &&
	has "resize .* resized .grows. to 3 MiB$" && has "resize-refused .* was refused the resize of .grows. to 9 MiB: "'
done_ create wide 4M
check "no memory: exit 1" refused 1 'device 0 is full: 4 MiB asked\|has no memory' resize grows 7M
check "no memory within the time: exit 3" refused 3 'none came back in time' resize grows 7M --wait 0.2
ctl 0 resize grows 7M --wait 20s &
waiter=$!
status '1 waiting request' || echo "# nobody waits"
done_ unlink wide
check "memory that comes within the time is the buffer's" eval 'wait "$waiter" && soon_is grows bytes $((7 << 20))'
check "a reserve is a size" refused 2 'is not a size' create r 1 --reserve large
check "and of create and load alone" refused 2 'resize takes no --reserve, which is for create, load' resize grows 1 --reserve 8M
check "it shrinks while nobody maps it" eval 'done_ resize grows 100 && soon_is grows bytes 100 && done_ unlink grows'
check "what has no reserve keeps its size" eval 'refused 1 "create it with a reserve" resize p2 2 && refused 1 "reserve is less than the size" create r 2M --reserve 1M'
check "rename of one that is not there" refused 1 "no buffer .p1." rename p1 p3
done_ unlink p2
check "unlink takes names away" eval 'done_ create a 1 && done_ create b 1 && done_ unlink a b && ! ctl 0 chmod 0600 a'
# Nothing to advise there: only an acquire can wait for a name.
no_such() {
	local words
	for words in 'unlink a' 'chmod 0600 a' 'chmod g+r a' 'chown 0 a'; do
		# shellcheck disable=SC2086 # words
		refused 1 "no buffer 'a': broker-status lists the names there are$" $words || return 1
	done
	refused 1 "no buffer 'a': if it was unlinked, broker-ctl stat says who still holds it$" drain a
}
check "what is not there is refused, whatever is asked of it: exit 1" no_such

# ---- drain ----

check "a drain of what nobody holds" eval 'done_ create a 1 && done_ drain a && refused 1 . unlink a'
done_ create a 64K
done_ create b 64K
client acquire a mark held wait go
soon test -e held
holder=$(cat pid)
check "a drain of what is held takes too long: exit 3" ctl 3 drain a b --timeout 0.3
check "it says so" said "'a' is not freed yet"
check "and whom it waits for" said "'a': waits for pid $holder (status-client), which maps it on device 0"
check "the names are gone, the held one's too" eval 'refused 1 . unlink a && refused 1 . unlink b'
check "what nobody held is freed" eval 'status "^a +64K +0 +draining" && ! "$show" "$name" | grep "^b "'
rm -f held
done_ create c 64K
done_ create d 64K
client acquire u acquire c acquire d mark held wait go
soon test -e held
check "of several a refusal counts more than the time: exit 1" eval \
	'ctl 1 drain c nothing --timeout 0.1 && said "no buffer .nothing." && said "waits for pid"'
"$ctl" drain d 2>/dev/null &
drainer=$!
status '^d +64K +0 +draining' && status ' 1 waiting request$'
kill -KILL $drainer
check "who asked for a drain and is gone does not wait any more" status ' 0 waiting requests$'
wait $drainer 2>/dev/null
done_ create x 1
timeout -s KILL 30 "$ctl" drain u x >drain.out 2>drain.err &
drainer=$!
status '^u +64K +0 +draining'
gone() {
	! in_table "^$1 "
}
check "a drain takes all names away before it waits" soon gone x
check "without a time it goes on" kill -0 $drainer
touch go
check "until the last one gave it back" eval 'wait $drainer && [ ! -s drain.err ]'
wait "$pid"
rm -f go held

# ---- tickets ----

check "a ticket is one line on stdout" eval \
	'ctl 0 ticket v && [ ! -s err ] && [ "$(wc -l <out)" = 1 ] && has "^gpub1[.][A-Za-z0-9_-]*$"'
cp out ticket
check "it is for reading" eval '"$client" redeem ticket >client.out 2>err && [ "$(cat client.out)" = "rights 1" ]'
check "once" eval '! "$client" redeem ticket 2>err && said "good once"'
ctl 0 ticket v --rights rw --many --lifetime forever --user "$(id -u)"
cp out ticket
check "--rights rw is for reading and writing" eval '"$client" redeem ticket >client.out 2>err && [ "$(cat client.out)" = "rights 3" ]'
check "--many is for any number of times" eval '"$client" redeem ticket redeem ticket >client.out 2>err'
ctl 0 ticket v --rights w --user $(($(id -u) + 1))
cp out ticket
check "--user is for that user" eval '! "$client" redeem ticket 2>err && said "another user"'
ctl 0 ticket v --lifetime 0.05
cp out ticket
check "--lifetime is for so long" eval 'sleep 0.1; ! "$client" redeem ticket 2>err && said expired'
ctl 0 ticket w --many
cp out ticket
done_ unlink w
check "a ticket ends with its buffer" eval '! "$client" redeem ticket 2>err && said "was unlinked"'
check "a ticket for what is not there: exit 1" refused 1 "no buffer 'w'" ticket w
check "a ticket that cannot be printed: exit 1" eval '"$ctl" ticket v >/dev/full 2>err; [ $? = 1 ] && ! grep -q gpub1 err'

# ---- evict ----

# evict_one ARGS...: a client that holds v is evicted; when it asks the next time, it learns so
evict_one() {
	rm -f held go
	client acquire v mark held wait go acquire v
	soon test -e held
	holder=$(cat pid)
	soon has_session "$holder"
	done_ evict "$(session "$holder")" "$@"
}
check "evict cuts a session off" eval 'evict_one && status "$holder +.* status-client +cut off"'
check "its process goes on" kill -0 "$holder"
touch go
check "and is refused from then on" eval '! wait "$pid"'
ended() {
	! kill -0 "$1" 2>/dev/null
}
check "evict --kill ends it" eval 'evict_one --kill && soon ended "$holder"'
touch go
wait "$pid" 2>/dev/null
check "a session that is not there: exit 1" refused 1 'no session 999999' evict 999999
rm -f go

# ---- the doctor ----

# finds CODE PATTERN [ARGS...]
finds() {
	local code=$1 pattern=$2
	shift 2
	ctl "$code" "$@" doctor && has "$pattern" && ! grep -vqE '^(ok|warn|FAIL): .{15}' out && [ ! -s err ]
}
check "the doctor finds a broker in order" eval 'finds 0 "^ok: the broker .$name. answers at ${address#unix:}, and serves 2 host devices$" && ! has "^FAIL"'
check "and its pid namespace" has "^ok: .* pid namespace"
check "and makes and maps a buffer on each device" eval \
	'has "^ok: the broker.s device 0 .* is device 0 here: a buffer was created and mapped$" && has "^ok: the broker.s device 1 .* is device 1 here"'
GPUB_HOST_VISIBLE=1 check "a device that is not seen here" eval \
	'finds 0 "^warn: the broker.s device 0 .* is not seen here: .*; look at GPUB_HOST_VISIBLE$" && has "^ok: the broker.s device 1 .* is device 0 here"'
GPUB_HOST_VISIBLE=7 check "no device that is seen here: exit 1" finds 1 '^FAIL: GPUB_HOST_VISIBLE shows no host device'
unset CUDA_DEVICE_MAX_CONNECTIONS
check "connections that are not set" finds 0 '^ok: CUDA_DEVICE_MAX_CONNECTIONS is not set, which means 8'
CUDA_DEVICE_MAX_CONNECTIONS=1 check "a single one" finds 0 "^warn: CUDA_DEVICE_MAX_CONNECTIONS is '1', .* hold up all its others"
CUDA_DEVICE_MAX_CONNECTIONS=16 check "enough of them" finds 0 '^ok: CUDA_DEVICE_MAX_CONNECTIONS is 16$'
CUDA_DEVICE_MAX_CONNECTIONS=33 check "more than there can be" finds 0 "^warn: CUDA_DEVICE_MAX_CONNECTIONS is '33', and should be a number"
check "few descriptors" eval '(ulimit -Sn 20; finds 0 "^warn: this process may have only 20 descriptors")'
check "no memory that may be locked" eval '(ulimit -l 0; finds 0 "^warn: this process may have only 0 bytes of locked memory")'
check "no address: exit 1, and which brokers there are" eval '(unset GPUBROKER; XDG_RUNTIME_DIR=$work
	finds 1 "^FAIL: no broker" && has "^warn: there is a broker .$name. of uid $(id -u), .*; if it is the one that is meant: export GPUBROKER=$name$")'
check "a path that is not there: exit 1, and which part of it" eval \
	'finds 1 "^FAIL: no broker answers at unix:$work/no/socket: there is no $work/no;" --address "unix:$work/no/socket"'
: >plain
check "a path that is no socket: exit 1" eval 'finds 1 "^FAIL: .*/plain is no socket" --address "unix:$work/plain"'
check "an address that is none: exit 1" finds 1 '^FAIL: .* is no broker.s address or name' --address some/where
mkdir open
ln "${address#unix:}" open/socket
chmod 777 open
check "a directory that anybody may write: exit 1" finds 1 "^FAIL: users other than the broker's may write" --address "unix:$work/open/socket"
if unshare -pf --mount-proc true 2>/dev/null; then
	check "a pid namespace of its own" eval \
		'unshare -pf --mount-proc timeout -s KILL 30 "$ctl" doctor >out 2>err && has "^ok: .*pid namespace of its own"'
else
	skip "a pid namespace of its own" "no namespace can be made here"
fi
if [ "$(id -u)" = 0 ] && setpriv --reuid=65534 --clear-groups timeout -s KILL 30 "$ctl" --version >/dev/null 2>&1; then
	check "a directory that lets nobody in: exit 1, and which" eval \
		'setpriv --reuid=65534 --clear-groups timeout -s KILL 30 "$ctl" doctor >out 2>err; [ $? = 1 ] &&
		has "^FAIL: .* is closed to this process .uid 65534, groups [0-9]*.: it is uid 0.s and group [0-9]*.s, with mode 0700"'
else
	skip "a directory that lets nobody in: exit 1, and which" "needs root, and a build that everybody can read"
fi

# ---- the end: everything was given back, and a broker that is gone is told from one that never was ----

touch end
wait "$broker"
check "the broker's accounting is balanced at the end" [ $? = 0 ]
broker=''
check "nothing is left in shared memory" test -z "$(find /dev/shm -name "*$name*")"
plan

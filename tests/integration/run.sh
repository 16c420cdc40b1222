#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh - broker-run's options, spec files and exit statuses: what is wrong is one error message and exit 125 before a worker
# starts; the first failure of a worker is the status, and each has its line; signals go on to the workers; --quiet is quiet.
# shellcheck disable=SC2016 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

run=${top_builddir:?}/broker/broker-run
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
# run-PID is the default; a name of our own shows what is left
name=run-$$

# runs ARGS...: leaves out, err and status
runs() {
	timeout -k 5 20 "$run" --device host --name "$name" "$@" >out 2>err </dev/null
	status=$?
}

# exits CODE ARGS...
exits() {
	local code=$1
	shift
	runs "$@"
	[ "$status" = "$code" ]
}

said() {
	grep -q -e "$1" err
}

# refused PATTERN ARGS...: exit 125, one error message with PATTERN, and no worker ran
refused() {
	local pattern=$1
	shift
	rm -f ran
	exits 125 "$@" && [ "$(wc -l <err)" = 1 ] && said '^broker-run: ' && said "$pattern" && [ ! -e ran ] && [ ! -s out ]
}

# ---- options ----

check "no command: exit 125" refused 'no command'
check "no command after --: exit 125" refused 'no command' --
check "an unknown option: exit 125" refused "'--bogus'" --bogus -- touch ran
check "an unknown letter: exit 125" refused "'-x'" -x -- touch ran
check "an unknown letter among others: exit 125" refused "'-x'" -xq -- touch ran
check "an unknown letter behind another: exit 125" refused "'-x'" -qx -- touch ran
check "options end at the command, also without --" exits 5 sh -c 'exit 5'
check "a value for an option that takes none: exit 125" refused "'--quiet=1'" --quiet=1 -- touch ran
check "an option without its value: exit 125" refused "'-n' needs a value" -n
check "a long one too: exit 125" refused "'--spec' needs a value" --spec
for workers in 0 -1 1025 99999999999999999999 two 1x ''; do
	check "-n '$workers': exit 125" refused 'workers' -n "$workers" -- touch ran
done
for buffer in x =1M x= x=0 x=M x=-1 x=1.5 x=1X x=1MM x=99999999999999999999 x=5G@ x=1@-1 x=1@64 x=1@one; do
	check "-b '$buffer': exit 125" refused . -b "$buffer" -- touch ran
done
check "a name with a space: exit 125" refused 'may hold only' -b 'a b=1M' -- touch ran
check "a name that begins with /: exit 125" refused 'must not begin' -b '/a=1M' -- touch ran
check "a name of 96 bytes: exit 125" refused '95 bytes' -b "$(printf 'n%.0s' {1..96})=1M" -- touch ran
check "a name of 95 bytes is taken" exits 0 -b "$(printf 'n%.0s' {1..95})=1M" -- true
check "a buffer declared twice: exit 125" refused 'twice' -b a=1 -b a=2 -- touch ran
for device in gpu host: host:0 host:65 host:x ''; do
	check "--device '$device': exit 125" refused . --device "$device" -- touch ran
done
for instance in '' a.b a/b ../x "$(printf 'n%.0s' {1..99})"; do
	check "--name '$instance': exit 125" refused 'instance' --name "$instance" -- touch ran
done
for number in 0 -1 x 4194305 ''; do
	check "--mappings '$number': exit 125" refused 'count of mappings' --mappings "$number" -- touch ran
	check "--buffers '$number': exit 125" refused 'count of buffers' --buffers "$number" -- touch ran
done
for time in -1 x 1000001 ''; do
	check "--poll '$time': exit 125" refused 'number of microseconds' --poll "$time" -- touch ran
done
for size in -1 none 1X 99999999999999999999 ''; do
	check "--pool '$size': exit 125" refused 'is not a size' --pool "$size" -- touch ran
done
for number in 0 -1 33 x ''; do
	check "--connections '$number': exit 125" refused 'count of connections: .* 1 to 32, or inherit' --connections "$number" -- touch ran
done
check "--help is on stdout" eval 'exits 0 --help && [ ! -s err ] && grep -q -e --kill-on-failure out'
check "--help where nothing can be written: exit 125" eval '"$run" --help >/dev/full 2>err; [ $? = 125 ] && said "cannot be written"'
check "--help without a stdout: exit 125" eval '"$run" --help >&- 2>err; [ $? = 125 ] && said "cannot be written"'
check "--version is on stdout" eval 'exits 0 --version && [ ! -s err ] && grep -q "^broker-run (gpubroker) [0-9]" out'
check "the command's options are its own" eval 'exits 0 echo --bogus -n && [ "$(cat out)" = "--bogus -n" ]'

# ---- what is found out only with the device ----

late() {
	local pattern=$1
	shift
	rm -f ran
	exits 125 "$@" && said "$pattern" && [ ! -e ran ]
}
check "a device that is not there: exit 125, no worker runs" late 'no device 1' -b x=1M@1 -- touch ran
check "a buffer larger than the device: exit 125, no worker runs" late 'larger than the whole device' -b x=900G -- touch ran
GPUB_HOST_MEMORY=1M check "buffers that are too much together: exit 125, no worker runs" late . -b x=1M -b y=1M -- touch ran
check "more buffers than --buffers: exit 125, no worker runs" late 'the broker has room for 2 buffers.*start it with more' --buffers 2 -b x=1 -b y=1 -b z=1 -- touch ran
GPUB_HOST_MEMORY=lots check "a device that does not start: exit 125, no worker runs" late 'not a size' -- touch ran
if [ ! -e "$top_builddir/kernels/kernels.fatbin" ]; then
	check "--device cuda in a build without: exit 125" exits 125 --device cuda -- touch ran
else
	# no GPU is seen then, whether one is here or not
	CUDA_VISIBLE_DEVICES='' check "--device cuda without one: exit 125, no worker runs" late . --device cuda -- touch ran
fi

# ---- spec files ----

# spec PATTERN TEXT: the file is refused with that in the error message
spec() {
	printf '%b' "$2" >spec
	refused "$1" --spec spec -- touch ran
}
check "a spec file that is not there: exit 125" refused 'nowhere.*No such file' --spec nowhere -- touch ran
check "a spec file that is a directory: exit 125" refused . --spec . -- touch ran
check "a spec file with an unknown key: file:line" spec '^broker-run: spec:2: .*sise' 'buffer "x" {\n  sise = "1M"\n}\n'
check "an unknown section: file:line" spec '^broker-run: spec:1: .*bufer' 'bufer "x" { size = "1M" }\n'
check "a missing brace: file:line" spec '^broker-run: spec:[0-9]*: ' 'buffer "x" { size = "1M"\n'
check "no size: file:line" spec '^broker-run: spec:3: .*needs a size or a layout' '# a remark\nbuffer "x" {\n}\n'
check "a size that is none: file:line" spec "^broker-run: spec:1: .*'lots' is not a size" 'buffer "x" { size = "lots" }\n'
check "a reserve that is none: file:line" spec "^broker-run: spec:1: .*'much' is not a size" 'buffer "x" { size = "1" reserve = "much" }\n'
check "a reserve below the size: file:line" spec "^broker-run: spec:2: of the buffer 'x' the reserve is less than the size" '\nbuffer "x" { size = "2M" reserve = "1M" }\n'
check "one below what the layout needs: file:line" spec "^broker-run: spec:1: of the buffer 'x' the reserve is less" 'buffer "x" { layout = "f32[1024]" reserve = "4095" }\n'
check "a device that is none: file:line" spec '^broker-run: spec:1: .*device = 64' 'buffer "x" { size = "1"  device = 64 }\n'
check "a device that is no number: file:line" spec '^broker-run: spec:1: ' 'buffer "x" { size = "1"  device = one }\n'
check "a mode that is none: file:line" spec "^broker-run: spec:1: .*'0999' is no mode" 'buffer "x" { size = "1"  mode = "0999" }\n'
check "a name that is none: file:line" spec '^broker-run: spec:2: .*may hold only' '\nbuffer "a b" { size = "1" }\n'
check "a name twice: file:line" spec "^broker-run: spec:2: the buffer 'x' is declared twice" 'buffer "x" { size = "1" }\nbuffer "x" { size = "1" }\n'
check "a name on the line and in the file: file:line" eval \
	'printf "\nbuffer \"x\" { size = \"1\" }\n" >spec; refused "^broker-run: spec:2: .*twice" -b x=1 --spec spec -- touch ran'
check "a name in the file and on the line: file:line" eval 'refused "twice.*spec:2" --spec spec -b x=1 -- touch ran'
check "a name in two files: file:line" eval 'cp spec other; refused "^broker-run: other:2: .*twice" --spec spec --spec other -- touch ran'
check "a comment without its end: file:line" spec "^broker-run: spec:2: the comment .* add '\*/'" 'buffer "y" { size = "1" }\n/* never closed\nbuffer "x" { size = "1" }\n'
check "a text without its end: file:line" spec "^broker-run: spec:1: the text .* add '\"'" 'buffer "x" { size = "1 }\n\n'
check "a variable in a text is not expanded: file:line" spec "^broker-run: spec:2: .*variables are not expanded" 'buffer "x" {\n size = "${HOME}" }\n'
check "nor one without quotes: file:line" spec "^broker-run: spec:1: .*variables are not expanded" 'buffer "x" { size = ${HOME} }\n'
check "a closing brace too many: file:line" spec "^broker-run: spec:2: .*'}' without a '{': remove it" 'buffer "x" { size = "1" }\n}\n'
check "a buffer without a name: file:line" spec '^broker-run: spec:1: .*has no name: write buffer "NAME"' 'buffer { size = "1" }\n'
check "an end in the middle: file:line" spec '^broker-run: spec:1: .*ends in the middle' 'buffer "x"'
check "a value without =: file:line" spec "^broker-run: spec:1: 'size' has no value: write a '='" 'buffer "x" { size "1" }\n'
check "a device that is no number says how to fix it" spec "^broker-run: spec:1: the value of 'device' is no number: give one" 'buffer "x" { size = "1"  device = one }\n'
check "an unknown key says which are known" spec "'sise' is unknown: write buffer .* size or layout, reserve, device, mode, timeline, dedicated, same_address" 'buffer "x" { sise = "1" }\n'
check "a boolean that is none: file:line" spec "^broker-run: spec:1: .*neither true nor false" 'buffer "x" { size = "1"  timeline = maybe }\n'
cat >spec <<'END'
# it's "$x
/* {
 ${y} " */ buffer "x" { size = "1" } // } '
END
check "marks, braces and variables in comments are no matter" eval 'exits 0 --spec spec -- true && said "buffers 1 created"'
check "garbage: file:line" eval 'head -c 4000 /dev/urandom >spec; refused "^broker-run: spec:" --spec spec -- touch ran'
printf 'buffer "a" { size = "64K" }\n# b has all\nbuffer "b/c" { size = "1M"  device = 0  mode = "0640"  timeline = true  dedicated = true  reserve = "4M" }\n' >spec
check "a good file makes its buffers" eval 'exits 0 --spec spec -b d=1 -- true && said "buffers 3 created, 3 freed" && said balanced'
# dedicated COUNT WORD...: of buffers that are declared with these words, that many have an allocation of their own
dedicated() {
	local count=$1 word
	shift
	for word in "$@"; do
		printf 'buffer "%s" { size = "1" %s }\n' "${word%% *}${word##* }" "$word"
	done >spec
	# shellcheck disable=SC2016 # the worker's shell expands
	exits 0 --spec spec -- timeout 20 sh -c 'until [ "$("$1" --json "$2" | grep -c "\"alone\": true")" = "$3" ]; do sleep 0.02; done' \
		- "$top_builddir/broker/broker-status" "$name" "$count"
}
check "dedicated gives a buffer its own allocation" dedicated 2 'dedicated = true' 'dedicated = on' 'dedicated = no'
# reserves OPTION VALUE: a worker finds that the buffer u may grow to 6 MiB, and lets it
reserves() {
	# shellcheck disable=SC2016 # the worker's shell expands
	exits 0 "$1" "$2" -- timeout 20 sh -c '"$1" stat u && "$1" resize u 6M && "$1" stat u' - "$top_builddir/broker/broker-ctl" &&
		[ "$(grep -xE '  (size|reserve) +[0-9]+ MiB' out | tr -s '\n ' ' ')" = ' size 1 MiB reserve 6 MiB size 6 MiB reserve 6 MiB ' ]
}
printf 'buffer "u" { size = "1M"  reserve = "6M" }\n' >spec
check "reserve is how large a buffer may become" reserves --spec spec
check "also on the command line" reserves -b u=1M,reserve=6M
printf 'buffer "u" { layout = "u8[1048576]"  reserve = "6M" }\n' >spec
check "and with a layout" eval 'reserves --spec spec && reserves -b "u=u8[1048576]@0,mode=0600,reserve=6M"'
check "an empty file is a good one" exits 0 --spec /dev/null -- true

# ---- exit statuses ----

# each worker does what stands for its rank
by_rank() {
	local code=$1 options=$2
	shift 2
	printf '%s\n' "$@" >deeds
	# shellcheck disable=SC2086,SC2016 # options are words; the worker's shell expands
	exits "$code" -n $# $options -- sh -c 'eval "$(sed -n "$((GPUBROKER_RANK + 1))p" deeds)"'
}
check "all succeed: 0" by_rank 0 '' true true true
check "one fails: its status" by_rank 7 '' true 'exit 7' true
check "a line names it, its pid, its status and its age" eval 'said "^broker-run: worker 1 (pid [0-9]*) ended with status 7 after [0-9.]* s$" && [ "$(grep -c "^broker-run: worker " err)" = 1 ]'
check "a worker's own 1 and 2 are told from what broker-run fails at" eval \
	'by_rank 2 "" "exit 2" && by_rank 1 "" "exit 1" && exits 125 --bogus -- true && exits 125 --device cuda:x -- true'
check "two fail: the first one's status" by_rank 7 '' 'while [ ! -e first ]; do sleep 0.01; done; sleep 0.2; exit 9' 'touch first; exit 7'
check "and a line for each" eval 'said "worker 0 (pid [0-9]*) ended with status 9 after [0-9.]* s$" && said "worker 1 (pid [0-9]*) ended with status 7 after [0-9.]* s$"'
rm -f first
check "a killed worker: 128 + signal" by_rank 137 '' true 'kill -KILL $$'
check "and the log names it" said 'worker 1 .* was killed by SIGKILL after '
check "a worker that ends by SIGTERM of its own: 143" by_rank 143 '' 'kill -TERM $$'
check "a failure does not take the others down" by_rank 3 '' 'exit 3' 'sleep 0.3; touch lived'
check "they ran to their end" test -e lived
rm -f lived
check "--kill-on-failure takes them down, the first failure counts" by_rank 3 --kill-on-failure 'sleep 0.1; exit 3' \
	'exec sleep 19'
check "and says so" said '^broker-run: worker 0 failed first: ending the other 1 (--kill-on-failure)$'
check "a command that is not there: 127" exits 127 -- ./no-such-command
check "and one error message says which" said 'cannot run ./no-such-command'
: >plain
check "a command that cannot be executed: 126" exits 126 -- ./plain
check "ranks and size are in the environment" eval \
	'exits 0 -n 3 -- sh -c "echo \$GPUBROKER_RANK/\$GPUBROKER_SIZE \${GPUBROKER%%:*}" && [ "$(sort out | tr "\n" " ")" = "0/3 unix 1/3 unix 2/3 unix " ]'

# connections VALUE [OPTION...]: what a worker finds in CUDA_DEVICE_MAX_CONNECTIONS
connections() {
	local value=$1
	shift
	exits 0 "$@" -- sh -c 'echo "${CUDA_DEVICE_MAX_CONNECTIONS-none}"' && [ "$(cat out)" = "$value" ]
}
mkdir mps
export CUDA_MPS_PIPE_DIRECTORY=$work
unset CUDA_DEVICE_MAX_CONNECTIONS
check "workers have 16 connections to a device" connections 16
check "or as many as --connections says" connections 32 --connections 32
check "with inherit the environment is left alone" connections none --connections inherit
CUDA_DEVICE_MAX_CONNECTIONS=4 check "what the environment has is left alone" connections 4
CUDA_DEVICE_MAX_CONNECTIONS='' check "also where that is nothing" connections ''
CUDA_DEVICE_MAX_CONNECTIONS=4 check "but by --connections" connections 5 --connections 5
CUDA_DEVICE_MAX_CONNECTIONS=4 check "not by inherit" connections 4 --connections inherit
: >mps/control
export CUDA_MPS_PIPE_DIRECTORY=$work/mps
check "under MPS it is left alone" connections none
check "but by --connections, there too" connections 16 --connections 16
unset CUDA_MPS_PIPE_DIRECTORY

# ---- words, signals ----

check "the closing account is on stderr, stdout is the workers'" eval 'exits 0 -b x=1M -- echo hello &&
	[ "$(cat out)" = hello ] && said "account: buffers 1 created, 1 freed; memory 1 MiB allocated, 1 MiB freed; .* balanced$"'
check "--quiet: nothing at all" eval 'exits 0 --quiet -b x=1M -- true && [ ! -s err ]'
check "--quiet: a failed worker is still named" eval 'exits 3 --quiet -- sh -c "exit 3" && said "^broker-run: worker 0 (pid [0-9]*) ended with status 3 after [0-9.]* s$"'
check "--quiet: the error message still comes" eval 'exits 137 --quiet -- sh -c "kill -KILL \$\$" && said "killed by SIGKILL after "'

# forwards SIGNAL: a signal to broker-run alone reaches its workers, whose traps decide
forwards() {
	local broker tries
	rm -f ready.* got.*
	cat >worker <<-END
		trap 'touch got.\$GPUBROKER_RANK; exit 5' $1
		touch ready.\$GPUBROKER_RANK
		for i in \$(seq 500); do sleep 0.02; done
	END
	# a shell's background jobs ignore SIGINT
	env --default-signal=INT "$run" --device host --name "$name" -n 2 -- sh worker >out 2>err </dev/null &
	broker=$!
	for ((tries = 0; tries < 500; tries++)); do
		[ -e ready.0 ] && [ -e ready.1 ] && break
		sleep 0.01
	done
	kill -"$1" "$broker"
	wait "$broker"
	status=$?
	[ "$status" = 5 ] && [ -e got.0 ] && [ -e got.1 ] && said balanced
}
check "SIGTERM goes to the workers, and the account still comes" forwards TERM
check "SIGINT too" forwards INT
check "SIGHUP too" forwards HUP
# timeout(1) would undo the trap, so it goes outside of it
check "broker-run under nohup outlives SIGHUP" eval '(trap "" HUP
	"$run" --device host --name "$name" -- sh -c "kill -HUP \$PPID; sleep 0.1" 2>err) && said balanced'
check "an ignored SIGCHLD that was inherited does not hang it" eval '(trap "" CHLD; exits 3 -n 2 -- sh -c "exit 3")'
check "the workers have the signals that broker-run was given" eval '(trap "" PIPE USR1
	exits 0 -- grep -E "Sig(Blk|Ign)" /proc/self/status; mv out under
	grep -E "Sig(Blk|Ign)" /proc/self/status >plain; cmp plain under)'

# A second broker of the name, while the first runs.
twice() {
	timeout -k 5 20 "$run" --device host --name "$name" -- "$run" --device host --name "$name" -- touch ran >out 2>err </dev/null
	status=$?
	[ "$status" = 125 ] && said "a broker named '$name' runs already" && [ ! -e ran ]
}
rm -f ran
check "two brokers of one name: the second is refused, the first goes on" twice
# What anybody may plant: a status file of nobody's, and a link where its sockets would be. Root would follow it.
planted() {
	mkdir -p bait && touch bait/socket bait/lock
	setpriv --reuid=65534 --clear-groups sh -c ': >"/dev/shm/gpubroker.$1" && ln -s "$2/bait" "/tmp/gpubroker-$1.aaaaaa"' - \
		"$name-evil" "$PWD" || return 1
	(unset XDG_RUNTIME_DIR; exits 0 -- true)
	status=$?
	rm -f "/tmp/gpubroker-$name-evil.aaaaaa" "/dev/shm/gpubroker.$name-evil"
	[ $status = 0 ] && [ -e bait/socket ]
}
if [ "$(id -u)" = 0 ]; then
	check "a link among leftovers leads nobody astray" planted
else
	skip "a link among leftovers leads nobody astray" "root alone could be led astray"
fi
check "nothing is left in shared memory" test -z "$(find /dev/shm -name "*$name*")"

plan

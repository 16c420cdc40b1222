#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# load.sh - broker-ctl load and save beside a real broker: bytes that come back as they were, files in formats that are refused with the
# command that knows them, and what is left of a load or a save that ends in the middle: nothing.
# shellcheck disable=SC2016 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

run=${top_builddir:?}/broker/broker-run
ctl=$top_builddir/broker/broker-ctl
show=$top_builddir/broker/broker-status
name=load-$$
work=$(mktemp -d) || exit 1
broker=''
cleanup() {
	touch "$work/end"
	[ -n "$broker" ] && wait
	rm -rf "$work"
} 2>/dev/null
trap cleanup EXIT
cd "$work" || exit 1

# ctl CODE ARGS...: runs broker-ctl, leaves out and err; true when it exits with CODE
ctl() {
	local code=$1
	shift
	timeout -s KILL 60 "$ctl" "$@" >out 2>err
	[ $? = "$code" ]
} </dev/null

# done_ ARGS...: it was done, and nothing was said
done_() {
	ctl 0 "$@" && [ ! -s out ] && [ ! -s err ]
}

# refused PATTERN ARGS...: exit 1, one error message with PATTERN
refused() {
	local pattern=$1
	shift
	ctl 1 "$@" && [ ! -s out ] && [ "$(wc -l <err)" = 1 ] && grep -q "^broker-ctl: .*$pattern" err
}

# bytes N: so many, each different from its neighbours, the same at each call
bytes() {
	awk -v n="$1" 'BEGIN { for (i = 0; i < n; i += 8) printf "%07d\n", i * 7919 % 9999991 }' | head -c "$1"
}

# buffers PATTERN: how many lines of the broker's table match
buffers() {
	"$show" "$name" | grep -cE -e "$1"
}

has_none() {
	[ "$(buffers "$1")" = 0 ]
}

# nothing_left: no buffer and no file is there of a load or a save that ended in the middle. The broker frees the buffer when it sees that
# the process has let go of it, which may be after the process has ended.
nothing_left() {
	soon has_none 'loading-' && ! compgen -G "$work/.gpubroker-*" >/dev/null
}
# only_held SIZE: soon one buffer of the name held is there, of that size
only_held() {
	soon eval '[ "$(buffers "^held ")" = 1 ]' && [ "$(buffers "^held +$1")" = 1 ]
}

GPUB_HOST_MEMORY=64M timeout -s KILL 600 "$run" --quiet --name "$name" --device host:2 -- \
	sh -c 'echo "$GPUBROKER" >address.new; mv address.new address; while [ ! -e end ]; do sleep 0.02; done' 2>run.err &
broker=$!
if ! soon test -e address; then
	echo "Bail out! the broker does not start: $(cat run.err)"
	exit 1
fi
GPUBROKER=$(cat address)
export GPUBROKER

# ---- bytes ----

# again FILE NAME: what is loaded under the name and saved is that file, to the last byte
again() {
	done_ load "$2" "$1" && done_ save "$2" "again-$1" && cmp "$1" "again-$1"
}

bytes 48 >u.bin
bytes 32 >other.bin
bytes 1 >one.bin
bytes $((20 << 20)) >large.bin
bytes $(((16 << 20) + 1)) >odd.bin
check "a file is loaded, saved, and the same" again u.bin u
check "the buffer has the file's size, and no layout" eval '[ "$(buffers "^u +48B +0 +live")" = 1 ] && ! "$ctl" stat u | grep -q uint8'
for file in one large odd; do
	check "also: $file" again $file.bin $file
done
check "standard input and output" eval '"$ctl" load bytes - <u.bin && "$ctl" save bytes - >bytes.out && cmp u.bin bytes.out'

# nothing PATTERN FILE: it is refused, with its name, before a buffer is made
nothing() {
	refused "$2: .*$1" load damaged "$2" && has_none damaged && [ "$(field counted)" = "$created" ]
}
# field KEY: the broker's count of buffers that were ever created
field() {
	"$show" --json "$name" | sed -nE 's/.*"buffers_created": ?([0-9]+).*/\1/p' | head -n 1
}
created=$(field counted)
: >none
check "the broker counts what is created" test -n "$created"
check "an empty file makes nothing" nothing 'is empty' none
check "nor what is not there" nothing 'No such file' missing
mkfifo pipe
check "nor a FIFO, which has no size, and it does not wait for one" nothing 'no regular file' pipe
check "nor a directory" nothing 'no regular file' .

# ---- files that Python loads and saves ----

{
	printf '\x93NUMPY\x01\x00'
	bytes 60
} >u.npy
cp u.npy u.data
bytes 100 >w.safetensors
cp w.safetensors w.SafeTensors
check "a .npy file is refused, and what knows it is said" nothing 'use python3 -m gpubroker load, which knows the format .npy, or give the file as -' u.npy
check "also under another name" nothing 'python3 -m gpubroker load' u.data
for file in w.safetensors w.SafeTensors; do
	check "and $file" nothing 'python3 -m gpubroker load, which knows the format .safetensors' $file
	check "nor is it saved" eval 'refused "$file: use python3 -m gpubroker save, .* .safetensors" save u new-$file && [ ! -e new-$file ] && nothing_left'
done
check "nor is a .npy file" eval 'refused "python3 -m gpubroker save, .* .npy" save u new.npy && [ ! -e new.npy ] && nothing_left'
check "as standard input and output their bytes are moved" eval '"$ctl" load npy - <u.npy && "$ctl" save npy - >again.npy && cmp u.npy again.npy'

# ---- options, and how a buffer gets its name ----

check "a name that is taken is not loaded" refused "the name 'u' is taken: .*--replace" load u large.bin
check "--replace replaces it" eval 'done_ load --replace u other.bin && done_ save u r.bin && cmp r.bin other.bin'
check "--device is the broker's number" eval 'done_ load d u.bin --device 1 && [ "$(buffers "^d +48B +1 +live")" = 1 ]'
check "of which it has that many" refused 'no device 2' load d2 u.bin --device 2
check "a device that is not seen here cannot be written" eval 'GPUB_HOST_VISIBLE=0 refused "device 1 is not seen here" load d2 u.bin --device 1 && nothing_left'
check "--mode is the buffer's" eval 'done_ load m u.bin --mode 0640 --dedicated && "$ctl" stat --json m | grep -qE "\"mode\": ?416,"'
check "--reserve lets it grow, and its bytes stay" eval 'done_ load grows u.bin --reserve 4M && "$ctl" stat --json grows | grep -qx " *\"reserve\": 4194304" &&
	done_ resize grows 96 && done_ save grows grown.bin && cmp u.bin <(head -c 48 grown.bin) &&
	cmp -n 48 /dev/zero <(tail -c +49 grown.bin) && done_ unlink grows'
check "one below the size of the file is refused" eval 'refused "reserve is less than the size" load grows u.bin --reserve 1 && nothing_left'
check "one that the owner cannot write is refused, and how it is fixed" refused 'add 0200, and --seal' load m2 u.bin --mode 0440
check "--seal is for good" eval 'done_ load sealed u.bin --seal && "$ctl" stat --json sealed | grep -qE "\"sealed\": ?true"'
check "without it, it can be written" eval '"$ctl" stat --json m | grep -qE "\"sealed\": ?false"'
check "no memory for it" eval 'truncate -s 65M huge && refused . load huge huge && nothing_left'
check "a buffer that is not there is not saved" eval 'refused "no buffer .nothing." save nothing nothing.bin && [ ! -e nothing.bin ]'

# ---- files that are saved ----

check "a file that was there is replaced" eval 'echo old >old.bin && done_ save d old.bin && cmp old.bin u.bin'
check "with its mode" eval 'chmod 600 old.bin && (umask 022; "$ctl" save d old.bin) && [ "$(stat -c %a old.bin)" = 600 ]'
check "a file that was not there has the mode of a new one" eval '(umask 027; "$ctl" save d masked.bin) && [ "$(stat -c %a masked.bin)" = 640 ]'
check "behind a symbolic link" eval 'ln -s old.bin link && done_ save u link && [ -L link ] && [ "$(stat -c %s old.bin)" = 32 ]'
check "what is no file is not" eval 'refused "no regular file" save d /dev/null && [ -c /dev/null ]'
check "a folder that is not there" refused 'No such file' save d nowhere/d.bin
check "a disk that is full" eval '! "$ctl" save d - >/dev/full 2>err && grep -q "cannot be written" err'

# ---- what ends in the middle ----

# held ARGS...: a load of the name held that is stopped between the create of its buffer and the first byte. It waits for memory, is
# stopped there, and gets the memory; $pid is its process.
held() {
	done_ create filler 50M@1 || return
	env --default-signal=INT "$ctl" load held large.bin --device 1 --wait 60 "$@" >out 2>err </dev/null &
	pid=$!
	soon waits && kill -STOP $pid && soon stopped && done_ unlink filler && soon eval '[ "$(buffers "^held.loading-.* live")" = 1 ]'
}
waits() {
	"$show" "$name" | grep -q '1 waiting request$'
}
stopped() {
	grep -q '^State:.T' "/proc/$pid/status"
}
# ended CODE: it goes on, and exits so; neither it nor its buffer is left
ended() {
	kill -CONT "$pid"
	wait "$pid"
	[ $? = "$1" ] && soon has_none '^held' && nothing_left
}

check "a load that waited for memory is done when it gets some" eval 'held && kill -CONT $pid && wait $pid && [ ! -s err ] && done_ save held h.bin && cmp h.bin large.bin'
done_ unlink held
for signal in INT TERM HUP; do
	check "SIG$signal ends it, and its buffer" eval 'held && kill -$signal $pid && ended 1'
	check "and it says so" grep -q "^broker-ctl: SIG$signal ended it; so there is no buffer 'held'" err
done
check "SIGKILL ends it, and its buffer" eval 'held && kill -KILL $pid && ended 137'
check "a file that has become shorter ends it, and its buffer" eval \
	'cp large.bin whole.bin && held && truncate -s 1M large.bin && ended 1 && grep -q "large.bin: it became shorter .* 1048576 bytes are left; so there is no buffer .held." err'
mv whole.bin large.bin
check "a file that has become longer does not matter" eval 'cp large.bin whole.bin && held && echo more >>large.bin && kill -CONT $pid && wait $pid && done_ save held h.bin && cmp h.bin whole.bin'
mv whole.bin large.bin
done_ unlink held
check "somebody else makes a buffer of that name: that one stays" eval \
	'held && done_ create held 1K && kill -CONT $pid; wait $pid; [ $? = 1 ] && only_held 1K && nothing_left'
check "unless it is to be replaced" eval 'held --replace && kill -CONT $pid && wait $pid && only_held 20M'
done_ unlink held

for call in register copy sync; do
	check "a device that fails at $call leaves nothing" eval \
		'GPUB_HOST_FAIL=$call:1:EIO refused "there is no buffer .failed. of it" load failed large.bin && soon has_none "^failed" && nothing_left'
	check "nor a save" eval 'GPUB_HOST_FAIL=$call:1:EIO refused . save large failed.bin && [ ! -e failed.bin ] && nothing_left'
done
check "a file that gets too large leaves nothing" eval \
	'(trap "" XFSZ; ulimit -f 10000; refused "failed.bin: it cannot be written: File too large" save large failed.bin) && [ ! -e failed.bin ] && nothing_left'
check "nor does it change the file that was there" eval \
	'echo old >failed.bin && (trap "" XFSZ; ulimit -f 10000; refused . save large failed.bin) && [ "$(cat failed.bin)" = old ] && nothing_left'
rm -f failed.bin
mkfifo slow
exec 7<>slow
# written: it waits for somebody to read
written() {
	[ "$(awk '$1 == "wchar:" { print $2 }' "/proc/$pid/io")" -ge 65536 ] || grep -q pipe "/proc/$pid/wchan"
}
check "SIGINT ends a save that nobody reads" eval 'env --default-signal=INT "$ctl" save large - >slow 2>err & pid=$!; soon written; kill -INT $pid; wait $pid; [ $? = 1 ] && grep -q "SIGINT ended it" err'
exec 7>&-

# ---- progress ----

# terminal ARGS...: what broker-ctl shows where standard error is a terminal
terminal() {
	script -qec "'$ctl' $*" /dev/null </dev/null >out
}
check "on a terminal a line says how far it is" eval 'terminal load shown large.bin && grep -q "shown: 20 MiB of 20 MiB, 100%" out'
check "of a save, too" eval 'terminal save shown s.bin && grep -q "shown: 20 MiB of 20 MiB, 100%" out && cmp s.bin large.bin'
check "not with --quiet" eval 'terminal save --quiet shown s.bin && [ ! -s out ]'

# ---- the end ----

touch end
wait "$broker"
check "the broker's accounting is balanced at the end" [ $? = 0 ]
broker=''
plan

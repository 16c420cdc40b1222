#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# load.sh - broker-ctl load and save beside a real broker: files that come back as they were, damaged ones that make nothing, and what is
# left of a load or a save that ends in the middle: nothing. Which headers are right is held by the units of npy.c and safetensors.c.
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

# le BYTES NUMBER: as that many little-endian bytes
le() {
	local i number=$2
	for ((i = 0; i < $1; i++, number >>= 8)); do
		# shellcheck disable=SC2059 # a format that is made
		printf "\\x$(printf %x $((number & 255)))"
	done
}

# npy TYPE SHAPE BYTES [ORDER]: a file as NumPy writes it, of that many bytes of data
npy() {
	local header="{'descr': '$1', 'fortran_order': ${4-False}, 'shape': $2, }" size
	size=$(((10 + ${#header} + 64) / 64 * 64 - 10))
	printf '\x93NUMPY\x01\x00'
	le 2 $size
	printf '%-*s\n' $((size - 1)) "$header"
	bytes "$3"
}

# tensors HEADER BYTES: a .safetensors file with that much behind the header
tensors() {
	le 8 ${#1}
	printf %s "$1"
	bytes "$2"
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

# ---- .npy ----

# again FILE NAME: what is loaded under the name and saved is that file, to the last byte
again() {
	done_ load "$2" "$1" && done_ save "$2" "again-$1" && cmp "$1" "again-$1"
}

npy '<f4' '(3, 4)' 48 >u.npy
npy '<f8' '()' 8 >scalar.npy
npy '<i8' '(0, 5)' 0 >empty.npy
npy '<c16' '(2,)' 32 >complex.npy
npy '|u1' '(20, 1048576)' $((20 << 20)) >large.npy
check "a .npy file is loaded, saved, and the same" again u.npy u
check "its layout is the buffer's" [ "$(buffers '^u +48B +float32\[3,4\]')" = 1 ]
check "the buffer holds the elements alone" eval 'done_ save u u.bin && tail -c 48 u.npy | cmp - u.bin'
for file in scalar empty complex large; do
	check "also: $file" again $file.npy $file
done
check "a file with NumPy's magic is one, whatever it is called" eval \
	'cp u.npy u.data && done_ load magic u.data && [ "$(buffers "^magic +48B +float32")" = 1 ]'
check "standard input is bytes" eval '"$ctl" load bytes - <u.npy && "$ctl" save bytes - >bytes.out && cmp u.npy bytes.out && [ "$(buffers "^bytes +176B")" = 1 ]'

# nothing PATTERN FILE: it is refused, with its name, before a buffer is made
nothing() {
	refused "$2: .*$1" load damaged "$2" && has_none damaged && [ "$(field counted)" = "$created" ]
}
# field KEY: the broker's count of buffers that were ever created
field() {
	"$show" --json "$name" | sed -nE 's/.*"buffers_created": ?([0-9]+).*/\1/p' | head -n 1
}
created=$(field counted)
npy '<f4' '(3, 4)' 47 >short.npy
npy '<f4' '(3, 4)' 49 >long.npy
npy '<f4' '(3, 4)' 48 True >fortran.npy
npy '>f4' '(3, 4)' 48 >big.npy
npy '<U2' '(3, 4)' 96 >text.npy
npy '<f4' '(4294967296, 4294967296)' 48 >absurd.npy
head -c 60 u.npy >header.npy
head -c 9 u.npy >stub.npy
: >none.npy
: >none
bytes 100 >noise.npy
check "the broker counts what is created" test -n "$created"
check "an array that was cut off makes nothing" nothing 'has 48 bytes, and 47 follow the header: it was cut off' short.npy
check "nor one with more behind it" nothing 'something else behind' long.npy
check "nor Fortran order, and how it is fixed" nothing 'numpy.ascontiguousarray' fortran.npy
check "nor big-endian elements" nothing 'big-endian' big.npy
check "nor text" nothing "'<U2'" text.npy
check "nor a shape that overflows" nothing 'larger than 2^62' absurd.npy
check "nor a header that was cut off" nothing 'header was cut off' header.npy
check "nor a stub" nothing 'too short' stub.npy
check "nor an empty file" eval "nothing 'too short' none.npy && nothing 'is empty' none"
check "nor what is only called .npy" nothing 'does not begin as' noise.npy
check "nor what is not there" nothing 'No such file' missing.npy
mkfifo pipe
check "nor a FIFO, which has no size, and it does not wait for one" nothing 'no regular file' pipe
check "nor a directory" nothing 'no regular file' .

# ---- .safetensors ----

w='"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}'
b='"b":{"dtype":"I64","shape":[5],"data_offsets":[24,64]}'
tensors "{\"__metadata__\":{\"format\":\"np\"},$w,$b}" 64 >w.safetensors
check "a .safetensors file is loaded" done_ load w w.safetensors
check "and saved" done_ save w again.safetensors
# header FILE: its length
header() {
	od -An -tu8 -N8 "$1" | tr -d ' '
}
check "its tensors begin at a multiple of 256, behind the same header and spaces" eval \
	'[ $((($(header again.safetensors) + 8) % 256)) = 0 ] &&
	[ "$(tail -c +9 again.safetensors | head -c "$(header again.safetensors)")" = "$(printf "%-*s" "$(header again.safetensors)" "$(tail -c +9 w.safetensors | head -c "$(header w.safetensors)")")" ]'
check "and are the same" eval 'tail -c 64 w.safetensors | cmp - <(tail -c 64 again.safetensors)'
check "what was saved is loaded as it is" eval 'done_ load w2 again.safetensors && done_ save w2 third.safetensors && cmp again.safetensors third.safetensors'
check "a buffer that holds no such file is not saved as one" eval \
	'refused "holds no .safetensors file" save u wrong.safetensors && [ ! -e wrong.safetensors ] && nothing_left'
created=$(field counted)
tensors "{$w,$b}" 63 >cut.safetensors
tensors "{$w}" 64 >more.safetensors
tensors "{$w,${b/24,/16,}}" 64 >overlap.safetensors
tensors "{$w,${b/\[24,64/\[32,72}}" 72 >gap.safetensors
tensors "{${w/2,3/2,4}}" 24 >shape.safetensors
tensors "{$w,$w}" 24 >twice.safetensors
tensors "{$w" 24 >open.safetensors
check "tensors that were cut off make nothing" nothing 'cut off' cut.safetensors
check "nor bytes that belong to none" nothing 'nothing behind' more.safetensors
check "nor tensors that overlap" nothing 'do not fill' overlap.safetensors
check "nor a gap between them" nothing 'neither gaps' gap.safetensors
check "nor a shape that has not so many bytes" nothing 'do not fill' shape.safetensors
check "nor two of one name" nothing 'duplicate' twice.safetensors
check "nor a header that does not end" nothing 'no JSON' open.safetensors
check "nor a header that is longer than the file" eval 'head -c 20 w.safetensors >head.safetensors && nothing "cut off" head.safetensors'

# ---- options, and how a buffer gets its name ----

generation() {
	"$ctl" stat --json u | sed -nE 's/.*"serial": ?([0-9]+).*/\1/p' | head -n 1
}
check "a name that is taken is not loaded" refused "the name 'u' is taken: .*--replace" load u large.npy
check "--replace replaces it" eval 'done_ load --replace u complex.npy && done_ save u r.npy && cmp r.npy complex.npy'
check "--device is the broker's number" eval 'done_ load d u.npy --device 1 && [ "$(buffers "^d +48B +float32\[3,4\] +1 ")" = 1 ]'
check "of which it has that many" refused 'no device 2' load d2 u.npy --device 2
check "a device that is not seen here cannot be written" eval 'GPUB_HOST_VISIBLE=0 refused "device 1 is not seen here" load d2 u.npy --device 1 && nothing_left'
check "--mode is the buffer's" eval 'done_ load m u.npy --mode 0640 --dedicated && "$ctl" stat --json m | grep -qE "\"mode\": ?416,"'
check "--reserve lets it grow, and its bytes stay" eval 'done_ load grows u.npy --reserve 4M && "$ctl" stat --json grows | grep -qx " *\"reserve\": 4194304" &&
	done_ resize grows 96 && done_ save grows rows.npy && grep -aq "(6, 4)" rows.npy && cmp <(tail -c 48 u.npy) <(tail -c 96 rows.npy | head -c 48) &&
	cmp -n 48 /dev/zero <(tail -c 48 rows.npy) && done_ unlink grows'
check "one below the size of the file is refused" eval 'refused "reserve is less than the size" load grows u.npy --reserve 1 && nothing_left'
check "one that the owner cannot write is refused, and how it is fixed" refused 'add 0200, and --seal' load m2 u.npy --mode 0440
check "--seal is for good" eval 'done_ load sealed u.npy --seal && "$ctl" stat --json sealed | grep -qE "\"sealed\": ?true"'
check "without it, it can be written" eval '"$ctl" stat --json m | grep -qE "\"sealed\": ?false"'
check "no memory for it" eval 'truncate -s 65M huge && refused . load huge huge && nothing_left'
check "a buffer that is not there is not saved" eval 'refused "no buffer .nothing." save nothing nothing.npy && [ ! -e nothing.npy ]'
check "a buffer without a layout is not saved as .npy" eval 'refused "has no layout" save bytes bytes.npy && [ ! -e bytes.npy ] && nothing_left'

# ---- files that are saved ----

check "a file that was there is replaced" eval 'echo old >old.bin && done_ save d old.bin && cmp old.bin u.bin'
check "with its mode" eval 'chmod 600 old.bin && (umask 022; "$ctl" save d old.bin) && [ "$(stat -c %a old.bin)" = 600 ]'
check "a file that was not there has the mode of a new one" eval '(umask 027; "$ctl" save d masked.bin) && [ "$(stat -c %a masked.bin)" = 640 ]'
check "behind a symbolic link" eval 'ln -s old.bin link && done_ save complex link && [ -L link ] && [ "$(stat -c %s old.bin)" = 32 ]'
check "what is no file is not" eval 'refused "no regular file" save d /dev/null && [ -c /dev/null ]'
check "a folder that is not there" refused 'No such file' save d nowhere/d.bin
check "a disk that is full" eval '! "$ctl" save d - >/dev/full 2>err && grep -q "cannot be written" err'

# ---- what ends in the middle ----

# held ARGS...: a load of the name held that is stopped between the create of its buffer and the first byte. It waits for memory, is
# stopped there, and gets the memory; $pid is its process.
held() {
	done_ create filler 50M@1 || return
	env --default-signal=INT "$ctl" load held large.npy --device 1 --wait 60 "$@" >out 2>err </dev/null &
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

check "a load that waited for memory is done when it gets some" eval 'held && kill -CONT $pid && wait $pid && [ ! -s err ] && done_ save held h.npy && cmp h.npy large.npy'
done_ unlink held
for signal in INT TERM HUP; do
	check "SIG$signal ends it, and its buffer" eval 'held && kill -$signal $pid && ended 1'
	check "and it says so" grep -q "^broker-ctl: SIG$signal ended it; so there is no buffer 'held'" err
done
check "SIGKILL ends it, and its buffer" eval 'held && kill -KILL $pid && ended 137'
check "a file that has become shorter ends it, and its buffer" eval \
	'cp large.npy whole.npy && held && truncate -s 1M large.npy && ended 1 && grep -q "large.npy: it became shorter .* 1048576 bytes are left; so there is no buffer .held." err'
mv whole.npy large.npy
check "a file that has become longer does not matter" eval 'cp large.npy whole.npy && held && echo more >>large.npy && kill -CONT $pid && wait $pid && done_ save held h.npy && cmp h.npy whole.npy'
mv whole.npy large.npy
done_ unlink held
check "somebody else makes a buffer of that name: that one stays" eval \
	'held && done_ create held 1K && kill -CONT $pid; wait $pid; [ $? = 1 ] && only_held 1K && nothing_left'
check "unless it is to be replaced" eval 'held --replace && kill -CONT $pid && wait $pid && only_held 20M'
done_ unlink held

for call in register copy sync; do
	check "a device that fails at $call leaves nothing" eval \
		'GPUB_HOST_FAIL=$call:1:EIO refused "there is no buffer .failed. of it" load failed large.npy && soon has_none "^failed" && nothing_left'
	check "nor a save" eval 'GPUB_HOST_FAIL=$call:1:EIO refused . save large failed.npy && [ ! -e failed.npy ] && nothing_left'
done
check "a file that gets too large leaves nothing" eval \
	'(trap "" XFSZ; ulimit -f 10000; refused "failed.npy: it cannot be written: File too large" save large failed.npy) && [ ! -e failed.npy ] && nothing_left'
check "nor does it change the file that was there" eval \
	'echo old >failed.npy && (trap "" XFSZ; ulimit -f 10000; refused . save large failed.npy) && [ "$(cat failed.npy)" = old ] && nothing_left'
rm -f failed.npy
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
check "on a terminal a line says how far it is" eval 'terminal load shown large.npy && grep -q "shown: 20 MiB of 20 MiB, 100%, .*/s" out'
check "of a save, too" eval 'terminal save shown s.npy && grep -q "shown: 20 MiB of 20 MiB, 100%, .*/s" out && cmp s.npy large.npy'
check "not with --quiet" eval 'terminal save --quiet shown s.npy && [ ! -s out ]'

# ---- the end ----

touch end
wait "$broker"
check "the broker's accounting is balanced at the end" [ $? = 0 ]
broker=''
plan

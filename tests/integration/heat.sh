#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# heat.sh - the heat example under broker-run: the right field, the same bits for every number of workers, devices and
# split, images in and out, refusals with one error message, and an end instead of a hang when a worker dies.
# HEAT_DEVICE (default host) and HEAT_DEVICES (default host:3) choose the devices. HEAT_SHORT (a grid) leaves out what no
# device has a part in, since a worker that starts CUDA takes a second; HEAT_VISIBLE (as CUDA_VISIBLE_DEVICES) has what one device
# shows run on that one alone, since a broker starts all that it sees. HEAT_STARTED is how many seconds a worker takes until it computes.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

run=${top_builddir:?}/broker/broker-run
heat=$top_builddir/examples/heat/heat
device=${HEAT_DEVICE:-host}
devices=${HEAT_DEVICES:-host:3}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# heat_on DEVICE WORKERS ARGS...: leaves out, err and status
heat_on() {
	local where=$1 workers=$2
	shift 2
	timeout 60 "$run" --quiet -n "$workers" --device "$where" -- "$heat" "$@" >out 2>err
	status=$?
	return "$status"
}

# solve WORKERS ARGS...: on one device
solve() {
	if [ -n "${HEAT_VISIBLE:-}" ]; then
		CUDA_VISIBLE_DEVICES=$HEAT_VISIBLE heat_on "$device" "$@"
	else
		heat_on "$device" "$@"
	fi
}

# spread WORKERS ARGS...: on several
spread() {
	heat_on "$devices" "$@"
}

# The error that heat found is small, and not for want of looking: it is there, and it is a number.
small_error() {
	[ "$status" = 0 ] && awk -v most="$1" '/^largest error:/ { seen = $3 ~ /^[0-9]/ && $3 + 0 <= most } END { exit !seen }' out
}

# closed_form FILE NY NX M N STEPS: the same comparison made here, from the raw bytes
closed_form() {
	[ "$(stat -c %s "$1")" = $((4 * $2 * $3)) ] || return 1
	od -An -v -tf4 -w4 "$1" | awk -v ny="$2" -v nx="$3" -v m="$4" -v n="$5" -v steps="$6" '
		BEGIN { pi = atan2(0, -1); r = 0.2
			lambda = 1 + 2 * r * (cos(pi * m / (ny + 1)) - 1) + 2 * r * (cos(pi * n / (nx + 1)) - 1)
			factor = exp(steps * log(lambda)) }
		{ i = int((NR - 1) / nx); j = (NR - 1) % nx
		  off = $1 - factor * sin(pi * m * (i + 1) / (ny + 1)) * sin(pi * n * (j + 1) / (nx + 1))
		  if (off < 0) off = -off
		  if (!(off <= worst)) worst = off }
		END { exit !(NR == ny * nx && worst < 1e-5) }'
}

same_dump() {
	[ "$status" = 0 ] && cmp "$1" "$2" >>err 2>&1
}

# refused STATUS PATTERN: that status, and one error message of heat that has PATTERN
refused() {
	[ "$status" = "$1" ] && [ "$(grep -c '^heat\[' err)" = 1 ] && grep '^heat\[' err | grep -q -e "$2"
}

# The workers' own words: none reports a failure that broker-run would then hide.
silent() {
	! grep -q '^heat\[' err
}

# ---- the field ----
for workers in 1 2 3 8; do
	solve "$workers" --size 120x96 --steps 300 --mode 2,3 --dump "mode.$workers"
	check "$workers workers agree with the closed form" small_error 5e-6
	check "$workers workers finish without a complaint" silent
done
check "the dump is the field of the closed form" closed_form mode.1 120 96 2 3 300

grids='37x53 8x3 64x1 97'
for grid in ${HEAT_SHORT:-$grids}; do
	solve 1 --size "$grid" --steps 101 --dump one
	for workers in 2 3 8; do
		rm -f many
		solve "$workers" --size "$grid" --steps 101 --dump many
		check "grid $grid: $workers workers give the bits of one" same_dump one many
	done
	rm -f many
	spread 8 --size "$grid" --steps 101 --dump many
	check "grid $grid: 8 workers on several devices, whose edges go ahead, give the bits of one" same_dump one many
done

most=${HEAT_SHORT:+16}
most=${most:-64}
solve 1 --size 70x40 --steps 60 --dump one
rm -f many
solve "$most" --size 70x40 --steps 60 --dump many
check "$most workers give the bits of one" same_dump one many
rm -f many
spread 5 --size 70x40 --steps 60 --dump many
check "several devices give the bits of one" same_dump one many

solve 1 --size 37x53 --steps 0 --dump one
rm -f many
solve 8 --size 37x53 --steps 0 --dump many
check "no step at all: 8 workers give the initial field" same_dump one many
check "no step at all: it is the formula" closed_form one 37 53 1 1 0

# ---- images ----
awk 'BEGIN { print "P2\n# by heat.sh\n7 9\n200"; for (i = 0; i < 63; i++) print (i * 37) % 201 }' >plain.pgm
solve 3 --input plain.pgm --steps 0 --dump image
image_is() {
	[ "$status" = 0 ] && od -An -v -tf4 -w4 image | awk -v most="$1" -v factor="$2" -v modulus="$3" -v cells="$4" '
		{ off = $1 - ((NR - 1) * factor) % modulus / most; if (off < 0) off = -off; if (!(off <= 1e-6)) bad = 1 }
		END { exit bad || NR != cells }'
}
check "a plain PGM is the initial field" image_is 200 37 201 63
{ printf 'P5 7 9 65535\n'; awk 'BEGIN { for (i = 0; i < 63; i++) { v = (i * 1009) % 65536
	printf "\\%03o\\%03o", int(v / 256), v % 256 } }' | { read -r bytes; printf '%b' "${bytes//\\/\\0}"; }; } >binary.pgm
solve 2 --input binary.pgm --steps 0 --dump image
check "a 16-bit PGM is the initial field" image_is 65535 1009 65536 63
# 3 x 2 pixels: 0, 13107, 26214; 39321, 52428, 65535
base64 -d >gray16.png <<'END'
iVBORw0KGgoAAAANSUhEUgAAAAMAAAACEAAAAADoj+WFAAAAFklEQVR4nGNgYDA2TktjmDnzzJn//wEaJwX7mYgVWQAAAABJRU5ErkJggg==
END
solve 2 --input gray16.png --size 2x3 --steps 0 --dump image
check "a 16-bit PNG is the initial field" image_is 65535 13107 65536 6
solve 1 --input plain.pgm --steps 50 --dump one
rm -f many
solve 4 --input plain.pgm --steps 50 --dump many
check "an image gives the same bits for 1 and 4 workers" same_dump one many

# The width and height that a picture's header says, and that it has colours.
picture_is() {
	[ "$status" = 0 ] && [ "$(od -An -v -tu1 -w26 -N26 picture.png | tr -s ' ')" = " 137 80 78 71 13 10 26 10 0 0 0 13 73 72 68 82 $1 8 2" ]
}
solve 2 --size 37x53 --steps 10 --png picture.png
check "the picture is a PNG in colour, one pixel a cell" picture_is "0 0 0 53 0 0 0 37"
solve 2 --size 5x4100 --steps 1 --png picture.png
check "a large picture is drawn at most 2048 wide" picture_is "0 0 5 87 0 0 0 2"
solve 2 --input picture.png
check "a picture in colour is no initial field" refused 2 grayscale

# ---- refusals ----
refuse() {
	local text=$1 pattern=$2
	shift 2
	solve 3 "$@"
	check "$text" refused 2 "$pattern"
}
if [ -z "${HEAT_SHORT:-}" ]; then
head -c 20 gray16.png >cut.png
head -c 30 binary.pgm >cut.pgm
printf 'P5 60000 60000 255\n' >huge.pgm
printf 'P2 2 2 9 1 2 3 10' >over.pgm
printf 'GIF89a' >other.gif
mkfifo pipe
refuse "fewer rows than workers" 'rows cannot be spread over 3 workers' --size 2x100
refuse "a size of 0" '--size 0' --size 0
refuse "a size that is no size" '--size 3x' --size 3x
refuse "an absurd size" '--size' --size 99999999999999999999
refuse "steps that are no number" '--steps' --steps 1e3
refuse "half a mode" '--mode' --mode 1
refuse "a mode finer than the grid" '--mode' --size 8 --mode 9,1
refuse "an option that is none" '--bogus: no such option' --bogus
refuse "an option without its value" 'needs a value' --size
refuse "a stray argument" 'options only' 12
refuse "an image and a mode" '--input and --mode' --input plain.pgm --mode 1,1
refuse "an image and another size" 'differs' --input plain.pgm --size 7x9
refuse "an image that is not there" 'nowhere.pgm: No such file' --input nowhere.pgm
refuse "a pipe for an image" 'not a regular file' --input pipe
refuse "a PNG cut off" 'cut.png' --input cut.png
refuse "a PGM cut off" 'shorter than its header says' --input cut.pgm
refuse "a PGM with absurd sides" 'sides must be' --input huge.pgm
refuse "a PGM with a value above its largest" 'too large' --input over.pgm
refuse "a file of another kind" 'neither a PNG nor' --input other.gif
fi

solve 2 --size 64 --steps 10 --dump nowhere/dump
check "an output that cannot be opened fails, and nobody hangs" grep -q '^heat\[0\]: --dump nowhere/dump: No such' err
check "and the status says so" [ "$status" = 1 ]
[ -w /dev/full ] && solve 2 --size 64 --steps 10 --dump /dev/full
check "a full disk is a failure" [ "$status" = 1 ]
env -u GPUBROKER "$heat" >out 2>err
status=$?
check "no broker: one error message" refused 1 broker
"$heat" --help >out 2>err
check "--help needs no broker and names every option" [ "$?:$(grep -c '^  --' out)" = "0:11" ]

# ---- a worker dies ----
# 124 is timeout's: they hung
stopped() {
	[ "$status" != 0 ] && [ "$status" != 124 ]
}
# shellcheck disable=SC2016 # expanded by the worker's shell
die='if [ "$GPUBROKER_RANK" = 1 ]; then echo $$ >victim; fi; exec "$0" --size 256 --steps 100000000'
for round in 1 2 3; do
	rm -f victim
	timeout 60 "$run" --quiet -n 4 --device "$device" -- sh -c "$die" "$heat" >out 2>err &
	runner=$!
	while [ ! -s victim ] && kill -0 "$runner" 2>/dev/null; do sleep 0.01; done
	sleep "${HEAT_STARTED:-0}.$((round * 3))" # before it computes, the others would wait 20 seconds for it
	kill -KILL "$(cat victim)"
	wait "$runner"
	status=$?
	check "round $round: the others stop when a worker is killed" stopped
	check "round $round: and say who died" grep -q '^heat\[[02]\]: worker 1 \(died\|ended\|did not\)' err
done

plan

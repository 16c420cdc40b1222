#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# manpages.sh - the man pages and the programs tell the same: each command's options, in the list and in the SYNOPSIS, each function of the library with
# its prototype, each counter; a page to find each function by; name and version at each page's foot; and mandoc has nothing to warn of.
set -u

man=${top_srcdir:?}/man
broker=${top_builddir:?}/broker
count=0

# check TEXT PROBLEMS: one point; every line of PROBLEMS is one
check() {
	count=$((count + 1))
	if [ -z "$2" ]; then
		echo "ok $count - $1"
	else
		echo "not ok $count - $1"
		printf '# %s\n' "${2//$'\n'/$'\n# '}"
	fi
}

# The options that --help lists, one a line: -n, --workers.
help_options() {
	"$broker/$1" --help | sed -n 's/^  *\(-.*\)/\1/p' | grep -oE '^-[A-Za-z], --[a-z-]+|^--[a-z-]+' | sed 's/, /\n/'
}

# The options that the page's list has, in the same form.
page_options() {
	sed -n '/^\.Sh DESCRIPTION/,/^\.Sh [^D]/p' "$man/$1".[18] | sed -n 's/^\.It Fl //p' |
		sed 's/ Ar .*//; s/ , Fl /\n/' | sed 's/^/-/'
}

# The options that the page's SYNOPSIS has, in the same form. "Fl h | V" are two.
synopsis_options() {
	sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESCRIPTION/p' "$man/$1".[18] | awk '
		{
			for (i = 1; i <= NF; i++) {
				if ($i ~ /^\.?Fl$/) { flags = 1; continue }
				if ($i ~ /^\.?[A-Z][a-z]$/) flags = 0
				if (flags && $i != "|" && $i != "-") print "-" $i
			}
			flags = 0
		}'
}

# The options of --help that the SYNOPSIS has neither by their short name nor by their long one; and what the SYNOPSIS alone has.
synopsis_differs() {
	local found
	found=" $(synopsis_options "$1" | sort -u | tr '\n' ' ')"
	"$broker/$1" --help | sed -n 's/^  *\(-.*\)/\1/p' | grep -oE '^-[A-Za-z], --[a-z-]+|^--[a-z-]+' | tr -d , | while read -r short long; do
		case $found in
		*" $short "* | *" ${long:-$short} "*) ;;
		*) echo "not in the SYNOPSIS: $short $long" ;;
		esac
	done
	comm -23 <(synopsis_options "$1" | sort -u) <(help_options "$1" | sort) | sed 's/^/only in the SYNOPSIS: /'
}

# "broker-ctl create": the commands of --help, and of the SYNOPSIS.
help_commands() {
	"$broker/broker-ctl" --help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p' | sort
}
synopsis_commands() {
	sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESCRIPTION/p' "$man/broker-ctl.1" | sed -n 's/^\.Cm //p' | tr -d ' ' | tr '|' '\n' | sort
}

# The functions of the version script.
exported() {
	sed -nE 's/^(int|void|const char \*) *(gpub_[a-z_]+)\(.*/\2/p' "$top_srcdir/libbroker/gpubroker.h"
}

# "int gpub_unlink(gpub_client *client,const char *name)" of every SYNOPSIS.
page_prototypes() {
	local page
	for page in "$man"/gpub*.3; do
		sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESCRIPTION/p' "$page"
	done | awk '
		function argument(text) { gsub(/"/, "", text); arguments = arguments (arguments == "" ? "" : ",") text }
		function done() { print type " " name "(" arguments ")" }
		/^\.Ft / { type = substr($0, 5); gsub(/"/, "", type) }
		/^\.Fo / { name = $2; arguments = "" }
		/^\.Fa / { argument(substr($0, 5)) }
		/^\.Fc/ { done() }
		/^\.Fn / {
			name = $2; arguments = ""
			rest = substr($0, length(".Fn " name) + 2)
			while (match(rest, /"[^"]*"|[^ "]+/)) {
				argument(substr(rest, RSTART, RLENGTH)); rest = substr(rest, RSTART + RLENGTH)
			}
			done()
		}' | grep ' gpub_' | grep -v '^typedef ' | sed 's/ \* / */' | sort
}

# The same of the header. One may go on in the next line.
header_prototypes() {
	sed '/^[a-z].*,$/{N; s/,\n[[:space:]]*/, /}' "$top_srcdir/libbroker/gpubroker.h" |
		grep -E '^(int|void|const char \*) *gpub_[a-z_]+\(' |
		sed 's/;.*//; s/, /,/g; s/^const char \*/const char * /; s/ \* / */' | sort
}

# What a page is wanted for and has none, in source or build tree.
pageless() {
	local name
	for name in $(exported); do
		[ -e "$man/$name.3" ] || [ -e "${top_builddir:?}/man/$name.3" ] || echo "no page $name.3"
	done
}

# An alias leads to a page that names it.
misled() {
	local alias page
	for alias in "$top_builddir"/man/gpub_*.3; do
		page=$(sed -n 's,^\.so man3/,,p' "$alias")
		grep -qx "\.Nm $(basename "$alias" .3)\( ,\)\{0,1\}" "$man/$page" || echo "$alias: .so '$page'"
	done
}

# "refused_exists creates of a taken name (EEXIST)": of the table of counters, and of the page's list.
table_counters() {
	sed -n 's/^\tX(\([a-z_]*\), "\(.*\)").*/\1 \2/p' "$top_srcdir/broker/base/counters.h"
}
page_counters() {
	sed -n '/^\.It Cm counters/,/^\.El/p' "$man/broker-status.1" | sed -n '/^\.It Cm [a-z]*_/{s/^\.It Cm //;N;s/\n/ /;p}'
}

# The functions of the C++ classes, and the inline ones for C: of their header, and of their page.
header_inline() {
	sed '/^private:/,/^};/d' "$top_srcdir/libbroker/gpubroker-cuda.h" "$top_srcdir/libbroker/gpubroker.hpp" |
		sed -n '/^static inline int/p; /^template .* inline/p; /^\t[A-Za-z~][^=]*(.*[^;]$/p' |
		sed 's/(.*//; s/operator\[\]//; s/operator=//' | grep -oE '(operator bool|[a-z_]{2,})$' | grep -vE '^(lease|span|if|static_assert|assert)$' | sort -u
}
page_inline() {
	sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESCRIPTION/p' "$man/gpub_lease.3" |
		grep -oE '(operator bool|[a-z_]{2,})\(' | grep -vE '^(lease|span)\(' | tr -d '(' | sort -u
}

# "buffers HOLDERS": of the table of columns, and of the page's lists.
table_columns() {
	"$broker/broker-status" --columns=help | awk 'NR > 1 { print $1, toupper($2) }'
}
page_list_columns() {
	sed -n '/^\.Ss The tables/,/^\.Ss/p' "$man/broker-status.1" |
		awk '/^\.It (Devices|Users|Sessions|Buffers|Brokers)$/ { table = tolower($2) } /^\.It [A-Z][A-Z]+$/ { print table, $2 }'
}

# "create creates, with the wait ...": of the table of histograms, and of the page's list.
table_times() {
	sed -n 's/^\tX([A-Z_]*, \([a-z_]*\), [0-9]*, "\(.*\)").*/\1 \2/p' "$top_srcdir/broker/base/histograms.h"
}
page_times() {
	sed -n '/^\.It Cm times/,/^\.El/p' "$man/broker-status.1" | sed -n '/^\.It Cm [a-z_]*$/{s/^\.It Cm //;N;s/\n/ /;p}' | sed 1d
}

# The families of metrics: of the table, and of the page's list.
table_metrics() {
	sed -n 's/^\tX(\(gpubroker_[a-z_]*\), .*/\1/p' "$top_srcdir/broker/show/openmetrics.c"
}
page_metrics() {
	sed -n 's/^\.It Li \(gpubroker_.*\)/\1/p' "$man/broker-exporter.8"
}

# Options of the commands that the tutorial shows, which their program does not have.
tutorial_strange() {
	local program words word
	sed -n 's/^\$ \(broker-[a-z]*\|brokerd\) \(.*\)/\1 \2/p' "$man/gpubroker-tutorial.7" | sed 's/ -- .*//; s/   .*//' |
		while read -r program words; do
			for word in $words; do
				case $word in
				--*) help_options "$program" | grep -qx -- "${word%%=*}" || echo "$program $word" ;;
				esac
			done
		done
}

# What a page says at its foot, where that is not the name and the version of configure.ac. The source says it, so "man ./page" does too.
strange_footers() {
	local page wanted
	wanted="gpubroker $(sed -n 's/^AC_INIT(\[gpubroker\],\[\(.*\)\])$/\1/p' "$top_srcdir/configure.ac")"
	for page in "$man"/*.[1-9]; do
		grep -qxF ".Os $wanted" "$page" || echo "$page: not .Os $wanted"
	done
}

echo "1..22"
for command in broker-run broker-status broker-ctl brokerd; do
	[ -n "$(help_options "$command")" ] || echo "Bail out! $command --help shows no option"
	check "the options of $command" "$(diff <(help_options "$command" | sort) <(page_options "$command" | sort))"
	check "the SYNOPSIS of $command has each option" "$(synopsis_differs "$command")"
done
check "the SYNOPSIS of broker-ctl has each command" "$(diff <(help_commands) <(synopsis_commands))"
if [ -x "$broker/broker-exporter" ]; then
	check "the options of broker-exporter" "$(diff <(help_options broker-exporter | sort) <(page_options broker-exporter | sort))"
	check "the SYNOPSIS of broker-exporter has each option" "$(synopsis_differs broker-exporter)"
else
	count=$((count + 1))
	for what in options SYNOPSIS; do
		echo "ok $count - the $what of broker-exporter # SKIP it is not built: there is no libmicrohttpd (Debian: libmicrohttpd-dev)"
		count=$((count + 1))
	done
	count=$((count - 1))
fi
[ -n "$(table_metrics)" ] || echo "Bail out! the table of metrics shows none"
check "the metrics are the table's" "$(diff <(table_metrics) <(page_metrics))"
[ -n "$(table_counters)" ] || echo "Bail out! the table of counters shows none"
[ -n "$(exported)" ] || echo "Bail out! the header shows no function"
check "each function's prototype is the header's" "$(diff <(header_prototypes) <(page_prototypes))"
check "the functions for C++ are the header's" "$(diff <(header_inline) <(page_inline))"
check "the counters are the table's" "$(diff <(table_counters) <(page_counters))"
[ -n "$(table_columns)" ] || echo "Bail out! broker-status lists no column"
check "the columns of broker-status are the page's, in their order" "$(for table in devices users sessions buffers brokers; do
	diff <(table_columns | grep "^$table ") <(page_list_columns | grep "^$table ")
done)"
[ -n "$(table_times)" ] || echo "Bail out! the table of histograms shows none"
check "what is timed is the table's" "$(diff <(table_times) <(page_times))"
check "the tutorial's commands have their options" "$(grep -q '^\$ broker-' "$man/gpubroker-tutorial.7" || echo 'it shows none'; tutorial_strange)"
check "each function has a page" "$(pageless)"
check "each alias leads to its page" "$(misled)"
check "each page's foot has name and version" "$(strange_footers)"
if command -v mandoc >/dev/null; then
	check "mandoc warns of nothing" "$(mandoc -T lint -W warning "$man"/*.[1-9] 2>&1)"
else
	echo "ok $((count + 1)) - mandoc warns of nothing # SKIP there is no mandoc (Debian: mandoc)"
fi

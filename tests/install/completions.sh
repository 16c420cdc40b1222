#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# completions.sh - what bash, zsh and fish complete: the files are those that the programs' --help gives, and in each shell that is here
# they complete options, commands, values, and the names of buffers and brokers that are there.
# shellcheck disable=SC2016 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
own_shm # the names of all brokers of the machine are completed

source=$(cd "$top_srcdir" && pwd) || exit 1
programs=$(cd "${top_builddir:?}/broker" && pwd) || exit 1
files=$source/contrib/completions
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export PATH=$programs:$PATH
all=(broker-ctl broker-run broker-status brokerd)
[ ! -x "$programs/broker-exporter" ] || all+=(broker-exporter) # it is built where libmicrohttpd is

current() {
	bash "$files/generate.sh" made "${all[@]/#/$programs/}" >out 2>err || return 1
	for file in made/*/*; do
		diff "$files/${file#made/}" "$file" >>out || { echo "make completions renews them" >>err && return 1; }
	done
}
check "the files are made of the programs' --help" current

# A broker with two buffers, which ends when its input does.
name=complete-$$
mkfifo hold
broker-run -q --device host --name "$name" -b first=1M -b second/part=1M -- cat hold >run.out 2>&1 &
exec 8>hold
check "a broker is there" soon eval 'broker-status --json "$name" >out 2>err'

# gives COMPLETER LINE WORD...: these, and nothing else, are what can stand at the line's end. Of names, another broker of this
# machine may have some.
gives() {
	local completer=$1 line=$2
	shift 2
	"$completer" "$line" 2>err | sort -u >out
	diff out <([ $# = 0 ] || printf '%s\n' "$@" | sort) >>err
}

# scene COMPLETER
scene() {
	check "$1: a command" gives "$1" "broker-ctl dra" drain
	check "$1: an option" gives "$1" "broker-run --kill" --kill-on-failure
	check "$1: the value of an option" gives "$1" "brokerd --device cu" cuda
	check "$1: a buffer" gives "$1" "broker-ctl drain seco" second/part
	check "$1: a buffer behind a value that is none" gives "$1" "broker-ctl chmod 0640 seco" second/part
	check "$1: nothing where a new name is meant" gives "$1" "brokerd --instance complete-"
	check "$1: a broker" gives "$1" "broker-status ${name%?}" "$name"
	check "$1: the program to run" gives "$1" "broker-run -n 2 -- broker-stat" broker-status
}

# in_bash LINE: the line is cut into words as readline does it
in_bash() {
	bash --norc -c '
		source "$1/bash/${2%% *}"
		IFS=" " read -ra COMP_WORDS <<<"${2//=/ = }"
		COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_LINE=$2
		[[ $(complete -p "${2%% *}") = *"-F "* ]] || exit 1
		_${COMP_WORDS[0]//-/_}
		[ ${#COMPREPLY[@]} -eq 0 ] || printf "%s\n" "${COMPREPLY[@]}"
	' - "$files" "$1"
}
scene in_bash
check "in_bash: a value behind =" gives in_bash "broker-run --device=ho" host
check "in_bash: the options of one command" gives in_bash "broker-ctl drain --t" --timeout
check "in_bash: none of another command" gives in_bash "broker-ctl drain --mo"

if command -v fish >/dev/null; then
	in_fish() {
		XDG_CONFIG_HOME=$work XDG_DATA_HOME=$work fish --no-config -c 'source $argv[1]; complete -C $argv[2]' "$files/fish/${1%% *}.fish" "$1" |
			sed 's/\t.*//'
	}
	scene in_fish
else
	skip "fish" "there is no fish (Debian: fish)"
fi

# zsh completes in a terminal alone: a line is typed, and a key that completes it and prints what became of it
if command -v zsh >/dev/null && zsh -fc 'zmodload zsh/zpty' 2>/dev/null; then
	cat >drive.zsh <<'END'
zmodload zsh/zpty
zpty z env -i PATH=$PATH HOME=/nonexistent TERM=dumb zsh -f -i
zpty -w z "fpath=($1 \$fpath); autoload -Uz compinit; compinit -u -D"
zpty -w z "shown() { zle complete-word; print -r -- '<''<'\"\$BUFFER\"'>''>' }; zle -N shown; bindkey '^T' shown; print ready-\$((6 * 7))"
zpty -r z out '*ready-42*'
zpty -w -n z "$2"$'\x14'
zpty -r z out '*<<*>>*'
out=${out##*<<}
print -r -- ${out%%>>*}
zpty -d z
END
	in_zsh() {
		local line
		line=$(timeout 60 zsh -f drive.zsh "$files/zsh" "$1") || return
		line=${line% }
		[ "$line" = "$1" ] || echo "${line##* }"
	}
	scene in_zsh
else
	skip "zsh" "there is no zsh (Debian: zsh)"
fi
exec 8>&-
wait
plan

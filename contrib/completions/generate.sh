#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# generate.sh - what the shells bash, zsh and fish complete behind each program's name, from its --help, and so from its table of options.
#
# usage: generate.sh FOLDER PROGRAM...      PROGRAM: a path; makes FOLDER/bash/PROGRAM, zsh/_PROGRAM and fish/PROGRAM.fish
#
# The files are kept in the sources, since a build for another machine cannot run its programs. make completions renews them;
# tests/install/completions.sh compares. The word that --help has for a value says how the value is completed: kind_of().
set -euo pipefail

folder=$1
shift

# parsed: --help as lines of fields with tabs between: option LETTER NAME VALUE COMMAND,... TEXT; command NAME ARGUMENTS TEXT;
# operands ARGUMENTS. An empty field is a dash.
# shellcheck disable=SC2016 # awk's own
parsed() {
	awk -v OFS='\t' '
		function dash(text) { return text == "" ? "-" : text }
		BEGIN { split("", commands) }
		/^usage: / { sub(/^usage: [^ ]* *(\[OPTION \.\.\.\] *)?/, ""); operands = $0 }
		/^  [a-z]/ && !options {
			name = $1; arguments = ""
			for (i = 2; $i ~ /^[^a-z]/; i++) arguments = arguments (arguments == "" ? "" : " ") $i
			text = $i
			while (++i <= NF) text = text " " $i
			commands[name] = 1
			print "command", name, dash(arguments), text
		}
		/^  (-.,|   ) --/ {
			options = 1
			letter = name = value = command = ""
			i = 1
			if ($i ~ /^-.,$/) letter = substr($(i++), 2, 1)
			name = substr($(i++), 3)
			if ($i ~ /^[A-Z]/ && index($0, "--" name " " $i)) value = $(i++)
			while ($i ~ /[,:]$/ && substr($i, 1, length($i) - 1) in commands) command = command $(i++)
			sub(/:$/, "", command)
			text = $i
			while (++i <= NF) text = text " " $i
			sub(/\(\/.*\/brokerd\.conf/, "(brokerd.conf", text) # where it is differs from build to build
			print "option", dash(letter), name, dash(value), dash(command), text
		}
		END { if (!length(commands)) print "operands", dash(operands) }'
}

# kind_of PROGRAM VALUE: how such a value is completed. Most are numbers and sizes, which are not.
kind_of() {
	local value=${2//[\[\]]/}
	case $1:${value%% *} in
	brokerd:NAME | broker-run:INSTANCE) echo none ;; # a new one
	*:NAME | *:BUFFER*) echo buffers ;;
	*:INSTANCE | *:ADDRESS) echo instances ;; # a broker is found by its name, too
	*:SESSION) echo sessions ;;
	*:USER*) echo users ;;
	*:FILE | *:PATH) echo files ;;
	*:KIND) echo devices ;;
	*:RIGHTS) echo rights ;;
	*:COMMAND | *:--) echo programs ;;
	*) echo none ;;
	esac
}

# kinds_of PROGRAM ARGUMENTS: of each argument in its order; behind "..." is nothing, as the last one is repeated
kinds_of() {
	local word kinds=()
	for word in $2; do
		case $word in
		... | ...\] | -) ;;
		*) kinds+=("$(kind_of "$1" "$word")") ;;
		esac
	done
	echo "${kinds[*]-}"
}

# What a shell calls to learn names. The JSON of broker-status has them, whoever asks.
json='broker-status --list --json 2>/dev/null'
# shellcheck disable=SC2034 # these three are reached by their names, which are kinds
instances="$json | sed -n 's/^ *\"instance\": \"\\(.*\\)\",\$/\\1/p'"
# shellcheck disable=SC2034
buffers="$json | sed -n '/\"buffers\": \\[\$/,/\"sessions\":/{/{\$/{n;s/^ *\"name\": \"\\(.*\\)\",\$/\\1/p}}'"
# shellcheck disable=SC2034
sessions="$json | sed -n '/\"sessions\": \\[\$/,/\"users\":/s/^ *\"session\": \\([0-9]*\\),\$/\\1/p'"

head_of() { # SHELL PROGRAM
	echo "# SPDX-License-Identifier: Apache-2.0"
	echo "# What $1 completes for $2. Made by contrib/completions/generate.sh: make completions renews it."
}

# ---- bash ----

bash_file() {
	local program=$1 f=_${1//-/_} kind letter name value command text takes='' only='' arguments='' options='' commands=''
	while IFS=$'\t' read -r kind letter name value command text; do
		case $kind in
		option)
			options+=" --$name"
			[ "$value" = - ] || takes+=" [--$name]=$(kind_of "$program" "$value")"
			[ "$letter" = - ] || [ "$value" = - ] || takes+=" [-$letter]=$(kind_of "$program" "$value")"
			[ "$command" = - ] || only+=" [--$name]=$command"
			;;
		command)
			commands+=" $letter"
			arguments+=" [$letter]='$(kinds_of "$program" "$name")'"
			;;
		operands) arguments+=" [-]='$(kinds_of "$program" "$letter")'" ;;
		esac
	done
	echo "# shellcheck shell=bash"
	head_of bash "$program"
	cat <<END
$f()
{
	# each option's kind of value, the commands that it is for, and the kinds of each command's arguments
	local -A takes=($takes)
	local -A only=($only)
	local -A arguments=($arguments)
	local options='${options# }' commands='${commands# }'
END
	sed "s/@FUNCTION@/$f/; s/@PROGRAM@/$program/" <<'END'
	local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command='' kind='' words='' option i
	local -a given=() kinds=()

	# --option=value comes as three words
	if [ "$current" = = ]; then
		current=''
	elif [ "$before" = = ]; then
		before=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	for ((i = 1; i < COMP_CWORD; i++)); do
		option=${COMP_WORDS[i]}
		case $option in
		--) ;;
		-*)
			[ "${COMP_WORDS[i + 1]-}" != = ] || ((i++))
			[ -z "${takes[$option]-}" ] || ((i++))
			;;
		*) given+=("$option") ;;
		esac
	done
	if [ -n "$commands" ]; then
		command=${given[0]-}
		given=("${given[@]:1}")
	fi

	if [ -n "${takes[$before]-}" ]; then
		kind=${takes[$before]}
	elif [[ $current = -* ]]; then
		for option in $options; do
			[[ -n $command && -n ${only[$option]-} && ",${only[$option]}," != *",$command,"* ]] || words+=" $option"
		done
	elif [ -n "$commands" ] && [ -z "$command" ]; then
		words=$commands
	else
		read -ra kinds <<<"${arguments[${command:--}]-}"
		i=${#given[@]}
		[ ${#kinds[@]} -eq 0 ] || kind=${kinds[i < ${#kinds[@]} ? i : ${#kinds[@]} - 1]}
	fi
	case $kind in
	devices) words='auto cuda host' ;;
	rights) words='r w rw' ;;
END
	for kind in buffers instances sessions; do
		# shellcheck disable=SC2016 # the shell that completes expands
		[[ "$takes $arguments" != *$kind* ]] || printf '\t%s) words=$(%s) ;;\n' "$kind" "${!kind}"
	done
	sed "s/@FUNCTION@/$f/; s/@PROGRAM@/$program/" <<'END'
	files) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
	users) mapfile -t COMPREPLY < <(compgen -u -- "$current") ;;
	programs) mapfile -t COMPREPLY < <([ ${#given[@]} -gt 0 ] || compgen -c -- "$current"; compgen -f -- "$current") ;;
	esac
	# not compgen -W, which would expand them
	[ -z "$words" ] || while read -r option; do
		[[ $option != "$current"* ]] || COMPREPLY+=("$option")
	done < <(printf '%s\n' "$words" | tr ' ' '\n' | sed '/^$/d')
}
complete -o filenames -F @FUNCTION@ @PROGRAM@
END
}

# ---- zsh ----

# zsh_text TEXT: as it stands in a specification, in single quotes
zsh_text() {
	local text=${1//\\/\\\\}
	text=${text//\[/\\[}
	text=${text//\]/\\]}
	text=${text//:/\\:}
	echo "${text//\'/\'\\\'\'}"
}

# zsh_action KIND FUNCTION
zsh_action() {
	case $1 in
	devices) echo '(auto cuda host)' ;;
	rights) echo '(r w rw)' ;;
	files) echo _files ;;
	users) echo _users ;;
	buffers | instances | sessions) echo "$2_$1" ;;
	programs) echo '_command_names -e' ;;
	*) echo ' ' ;;
	esac
}

zsh_function() {
	# shellcheck disable=SC2016 # zsh expands
	printf '%s()\n{\n\tlocal -a found\n\tfound=(${(f)"$(%s)"})\n\tcompadd -a found\n}\n' "$1" "$2"
}

zsh_file() {
	local program=$1 f=_${1//-/_} kind letter name value command text names operand i
	local specs=() commands=() cases=() kinds=() action
	while IFS=$'\t' read -r kind letter name value command text; do
		case $kind in
		option)
			names="'--$name"
			[ "$value" = - ] || names+="="
			[ "$letter" = - ] || names="'(-$letter --$name)'{-$letter,${names#\'}}'"
			[ "$letter" = - ] || [ "$value" = - ] || names=${names/,/+,}
			[[ $text != *"may be repeated"* ]] || names="'*'${names#*\'(*)\'}"
			[ "$command" = - ] || text="${command//,/, }: $text"
			names+="[$(zsh_text "$text")]"
			[ "$value" = - ] || names+=":$(zsh_text "$value"):$(zsh_action "$(kind_of "$program" "$value")" "$f")"
			specs+=("$names'")
			;;
		command)
			commands+=("'$letter:$(zsh_text "$value")'")
			read -ra kinds <<<"$(kinds_of "$program" "$name")"
			for i in "${!kinds[@]}"; do
				action=$(zsh_action "${kinds[i]}" "$f")
				# the last one may be repeated
				operand=$((i + 1 < ${#kinds[@]} ? i + 1 : 0))
				cases+=("$letter:${operand/#0/*}) ${action/# /:} ;;")
			done
			;;
		operands)
			operand=$(kinds_of "$program" "$letter")
			case $operand in
			'') ;;
			programs*) specs+=("'(-)1:command:_command_names -e'" "'*::argument:_normal'") ;;
			*) specs+=("'1::$letter:$(zsh_action "$operand" "$f")'") ;;
			esac
			;;
		esac
	done
	echo "#compdef $program"
	head_of zsh "$program"
	for kind in instances buffers sessions; do
		[[ "${specs[*]} ${cases[*]-}" != *"${f}_$kind"* ]] || zsh_function "${f}_$kind" "${!kind}"
	done
	printf '%s()\n{\n' "$f"
	if [ ${#commands[@]} -gt 0 ]; then
		printf '\tlocal -a commands\n\tlocal line state\n\tcommands=(\n'
		printf '\t\t%s\n' "${commands[@]}"
		printf '\t)\n'
		specs+=("'1:command:{_describe command commands}'" "'*:argument:->argument'")
	fi
	printf '\t_arguments -s -S'
	printf ' \\\n\t\t%s' "${specs[@]}"
	echo
	if [ ${#commands[@]} -gt 0 ]; then
		# shellcheck disable=SC2016 # zsh expands
		printf '\n\t[[ $state = argument ]] || return 0\n\tcase $line[1]:$(( $#line - 1 )) in\n'
		printf '\t%s\n' "${cases[@]}"
		printf '\tesac\n'
	fi
	printf '}\n\n%s "$@"\n' "$f"
}

# ---- fish ----

fish_text() {
	local text=${1//\\/\\\\}
	echo "'${text//\'/\\\'}'"
}

# fish_action KIND FUNCTION
fish_action() {
	case $1 in
	devices) echo "-x -a 'auto cuda host'" ;;
	rights) echo "-x -a 'r w rw'" ;;
	files) echo '-r -F' ;;
	users) echo "-x -a '(__fish_complete_users)'" ;;
	buffers | instances | sessions) echo "-x -a '($2_$1)'" ;;
	*) echo -x ;;
	esac
}

fish_file() {
	local program=$1 f=__${1//-/_} kind letter name value command text operand option all='' lines=()
	while IFS=$'\t' read -r kind letter name value command text; do
		case $kind in
		option)
			option="-l $name"
			[ "$letter" = - ] || option="-s $letter $option"
			[ "$value" = - ] || option+=" $(fish_action "$(kind_of "$program" "$value")" "$f")"
			[ "$command" = - ] || option+=" -n '__fish_seen_subcommand_from ${command//,/ }'"
			lines+=("$option -d $(fish_text "$text")")
			;;
		command)
			all+=" $letter"
			lines+=("-n __fish_use_subcommand -a $letter -d $(fish_text "$value")")
			for operand in $(kinds_of "$program" "$name" | tr ' ' '\n' | sort -u); do
				[ "$operand" = none ] ||
					lines+=("-n '__fish_seen_subcommand_from $letter' $(fish_action "$operand" "$f")")
			done
			;;
		operands)
			operand=$(kinds_of "$program" "$letter")
			case $operand in
			programs*) lines+=("-F -a '(__fish_complete_command)'") ;;
			instances) lines+=("$(fish_action "$operand" "$f")") ;;
			esac
			;;
		esac
	done
	head_of fish "$program"
	for kind in instances buffers sessions; do
		[[ ${lines[*]} != *"${f}_$kind"* ]] || printf 'function %s\n\t%s\nend\n' "${f}_$kind" "${!kind}"
	done
	echo "complete -c $program -f"
	printf "complete -c $program %s\n" "${lines[@]}"
}

mkdir -p "$folder"/{bash,zsh,fish}
for path in "$@"; do
	name=${path##*/}
	rows=$("$path" --help | parsed)
	bash_file "$name" <<<"$rows" >"$folder/bash/$name"
	zsh_file "$name" <<<"$rows" >"$folder/zsh/_$name"
	fish_file "$name" <<<"$rows" >"$folder/fish/$name.fish"
done

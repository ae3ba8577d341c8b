# Completion of cframefs and cframe in bash. All that can be chosen is read from their --help.

# The help of a command, each option on one line.
_cframe_help() {
	"$@" --help 2>/dev/null | sed -e ':a' -e '$!N;s/\n \{25\}/ /;ta' -e 'P;D'
}

# The names of options that begin with dashes.
_cframe_options() {
	grep -oE '^  -[^ =,]+=?(, --[a-z]+)?' | tr -d ,
}

# The values of an option, where its help lists them: "balanced, size, speed, off".
_cframe_values() {
	grep -e "^  $1=" | grep -oE '[a-z0-9_]+(, [a-z0-9_]+){2,}( or [a-z0-9_]+)?' |
		sed -E 's/,? or |, / /g'
}

# Replies with those of the words that begin like $word; $raw is the word of the line that it ends.
_cframe_reply() {
	local reply cut=
	[[ $COMP_WORDBREAKS == *=* ]] && cut=${raw%"${raw##*=}"} # readline has its own idea of words
	for reply in $(compgen -W "$1" -- "$word"); do
		reply=${raw%"$word"}$reply
		COMPREPLY+=("${reply#"$cut"}")
	done
	[[ ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null
}

_cframe_paths() {
	local path
	compopt -o filenames 2>/dev/null
	while IFS= read -r path; do
		COMPREPLY+=("$path")
	done < <(compgen "$1" -- "$word")
}

# Those of cframefs -o; there may be others before it, with commas.
_cframefs_mount_option() {
	local help
	help=$(_cframe_help "$1")
	word=${raw##*,}
	compopt -o nospace 2>/dev/null
	case $word in
	rules=*)
		word=${word#*=}
		_cframe_paths -f
		;;
	*=*)
		local name=${word%%=*}
		word=${word#*=}
		_cframe_reply "$(_cframe_values "$name" <<<"$help")"
		;;
	*)
		_cframe_reply "$(grep -oE '^  [a-z_]+=' <<<"$help") $(
			grep -oE '^  [a-z_]+(, [a-z_]+)+' <<<"$help" | tr -d ,)"
		;;
	esac
}

_cframefs() {
	local line=${COMP_LINE:0:COMP_POINT} raw word before
	raw=${line##*[[:space:]]} word=$raw COMPREPLY=()
	read -ra before <<<"${line%"$raw"}"
	if [[ ${before[-1]} == -o ]]; then
		_cframefs_mount_option "$1"
	elif [[ $raw == -* ]]; then
		_cframe_reply "-o $(_cframe_help "$1" | _cframe_options)"
	else
		word=$2
		_cframe_paths -d
	fi
}

# The arguments of `cframe COMMAND`.
_cframe_argument() {
	local help
	help=$(_cframe_help "$1" "$2")
	case $3,$raw in
	*,--*=*)
		word=${raw#*=}
		_cframe_reply "$(_cframe_values "${raw%%=*}" <<<"$help")"
		;;
	--codec,* | --filter,* | --tune,*) _cframe_reply "$(_cframe_values "$3" <<<"$help")" ;;
	*,-*) _cframe_reply "--help $(_cframe_options <<<"$help")" ;;
	-C,*) _cframe_paths -d ;;
	esac
	[[ $2 != stat || $raw == -* ]] || _cframe_reply "$(awk '$3 == "fuse.cframefs" { print $2 }' \
		/proc/self/mounts)"
}

_cframe() {
	local line=${COMP_LINE:0:COMP_POINT} raw word before
	raw=${line##*[[:space:]]} word=$raw COMPREPLY=()
	read -ra before <<<"${line%"$raw"}"
	if [[ ${#before[@]} == 1 || (${#before[@]} == 2 && ${before[1]} == help) ]]; then
		_cframe_reply "$("$1" --help | grep -oE '^  [a-z]+ ') help --help --version"
	else
		_cframe_argument "$1" "${before[1]}" "${before[-1]}"
	fi
}

# What has no reply is a file.
complete -o bashdefault -o default -F _cframefs cframefs
complete -o bashdefault -o default -F _cframe cframe

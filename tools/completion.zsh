#compdef cframe cframefs
# Completion of cframefs and cframe in zsh. All that can be chosen is read from their --help.

# The help of a command, each option on one line.
_cframe_help() {
	_call_program help "${(@q)@}" --help | sed -e ':a' -e '$!N;s/\n \{25\}/ /;ta' -e 'P;D'
}

# What completes a value, by its name and what the help says of it.
_cframe_action() {
	local list values
	case $1 in
	FILE) reply=_files ;;
	DIR) reply='_files -/' ;;
	*)
		list=$(grep -oE '[a-z0-9_]+(, [a-z0-9_]+){2,}( or [a-z0-9_]+)?' <<<$2)
		values=(${(s: :)${${list%%$'\n'*}//(, | or )/ }})
		reply=${values:+"($values)"}
		;;
	esac
}

# Adds one for _arguments, or for _values, to `specs`: of "-u, --update", "-j N", "--level=N",
# "--watch [N]" or "level=N", and what the help says of it.
_cframe_spec() {
	local value reply name
	local text="[${${${2//\\/\\\\}//:/\\:}//(#m)[\[\]]/\\$MATCH}]"
	[[ $1 != *[\ =][A-Z\[]* ]] || value=${1##*[ =]}
	_cframe_action "${value//[\[\]]/}" $2
	[[ -z $value ]] || value=:${value//[\[\]]/}:${reply:- }
	case $1 in
	*\ \[*) specs+=("${1%% *}$text:$value") ;;
	*\ [A-Z]*) specs+=("${1%% *}${${(M)1:#-j*}:++}$text$value") ;;
	-*=*) specs+=("${1%%=*}=$text$value") ;;
	*=*) specs+=("${1%%=*}$text$value") ;;
	*) for name in ${(s:, :)1}; do specs+=("(${1//,/})$name$text"); done ;;
	esac
}

# Those of the lines of a help that begin so.
_cframe_specs() {
	local line names
	for line in ${(f)2}; do
		[[ $line == \ \ $~1* ]] || continue
		names=${${line#  }%%  *}
		_cframe_spec $names ${${line#*$names}##[[:space:]]##}
	done
}

_cframe_mounts() {
	local -a at
	at=(${(g:o:)${(f)"$(awk '$3 == "fuse.cframefs" { print $2 }' /proc/self/mounts)"}})
	_wanted directories expl 'mount point' compadd -a at
}

# What -o takes, with commas.
_cframefs_mount_options() {
	local -a specs
	local help=$(_cframe_help $command) name
	_cframe_specs '[a-z_]##=' $help
	for name in ${(s:, :)${(M)${(f)help}:#  rw, *}%%, ...*}; do
		specs+=("${name// /}[as for mount(8)]")
	done
	_values -s , 'mount option' $specs
}

_cframefs() {
	local command=$words[1]
	local -a specs
	_cframe_specs '-' "$(_cframe_help $command)"
	_arguments $specs '*-o[mount options]:options:_cframefs_mount_options' \
		'1:directory of frames:_files -/' '2:mount point:_files -/'
}

_cframe_commands() {
	local -a commands
	local line
	for line in ${(f)"$(_cframe_help $command)"}; do
		[[ $line != \ \ [a-z]* ]] || commands+=(${${line#  }%% *}:${${line#  * }## ##})
	done
	_describe command commands
}

# The arguments of `cframe COMMAND`.
_cframe_arguments() {
	local -a specs
	local help=$(_cframe_help $command $words[1])
	_cframe_specs '-' $help
	case $words[1],$help in
	help,*) specs+=('1:command:_cframe_commands') ;;
	*,usage:*MOUNTPOINT*) specs+=('1:mount point:_cframe_mounts') ;;
	*,usage:*(FILE|PATH|SOURCE)*) specs+=('*:file:_files') ;;
	esac
	_arguments $specs '(- *)'{-h,--help}'[its arguments and options]'
}

_cframe() {
	setopt localoptions extendedglob no_shwordsplit
	local curcontext=$curcontext state context line expl command=$words[1]
	local -A opt_args
	if [[ $service == cframefs ]]; then
		_cframefs
		return
	fi
	_arguments -C '(- *)'{-h,--help}'[the commands]' '(- *)'{-V,--version}'[its version]' \
		'1:command:_cframe_commands' '*::argument:_cframe_arguments'
}

# Read by name of the command when it is first completed, or by `source`.
if [[ $funcstack[1] == _cframe ]]; then
	_cframe "$@"
else
	compdef _cframe cframe cframefs
fi

# Completion of cframefs and cframe in fish. All that can be chosen is read from their --help.

# The help of a command, each option on one line.
function __cframe_help
    set -l text ($argv --help 2>/dev/null | string collect)
    string replace -ra '\n {25}' ' ' -- $text | string split \n
end

# The values that a line of a help lists: "balanced, size, speed, off".
function __cframe_values
    string match -r '[a-z0-9_]+(?:, [a-z0-9_]+){2,}(?: or [a-z0-9_]+)?' -- $argv[1] |
        string replace -ra ', | or ' \n
end

# An option by its line in a help, such as "  -u, --update  what"; the rest is for `complete`.
function __cframe_option
    set -l line (string match -r '^  (-.*?)  +(.*)' -- $argv[1])
    set -l what -d $line[3]
    for name in (string match -ra -- '(?<=^|, )--?[^ ,=]+' $line[2])
        set -a what (string replace -r -- '^-' -s $name | string replace -r -- '^-s-' -l)
    end
    switch $line[2]
        case '*FILE' '*DIR'
            set -a what -rF
        case '*=*' '*N'
            set -a what -xa "$(__cframe_values $line[3])"
    end
    complete $argv[2..] $what
end

# What -o of cframefs takes, behind the last comma.
function __cframefs_mount_options
    set -l before (commandline -ct | string match -r '.*,')
    for line in (__cframe_help cframefs)
        set -l name (string match -r '^  ([a-z_]+=)\S* +(.*)' -- $line)
        if set -q name[3]
            for value in '' (__cframe_values $name[3])
                printf '%s\t%s\n' "$before$name[2]$value" $name[3]
            end
        end
        set -l flags (string match -r '^  rw, .*(?=, \.\.\.)' -- $line | string trim)
        for flag in (string split ', ' -- $flags)
            printf '%s\tas for mount(8)\n' "$before$flag"
        end
    end
end

complete -c cframefs -so -xa '(__cframefs_mount_options)' -d 'mount options'
complete -c cframefs -xa '(__fish_complete_directories)'
for line in (__cframe_help cframefs | string match -r '^  -.*')
    __cframe_option $line -c cframefs
end

complete -c cframe -n __fish_use_subcommand -sV -l version -d 'its version'
complete -c cframe -sh -l help -d 'its arguments and options'
for line in (__cframe_help cframe | string match -r '^  [a-z].*')
    set -l name (string match -r '^  ([a-z]+) +(.*)' -- $line)
    set -l of -c cframe -n "__fish_seen_subcommand_from $name[2]"
    complete -c cframe -n __fish_use_subcommand -fa $name[2] -d $name[3]
    for option in (__cframe_help cframe $name[2] | string match -r '^  -.*')
        __cframe_option $option $of
    end
end
complete -c cframe -n '__fish_seen_subcommand_from stat' -fa \
    "(string match -rg '^\S+ (\S+) fuse.cframefs ' </proc/self/mounts | string unescape)"

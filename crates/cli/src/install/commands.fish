
# Behind `uzswap run --` stands another command line.
function __fish_uzswap_command
    set -l words (commandline -opc) (commandline -ct)
    set -l at (contains -i -- -- $words)
    or return
    complete -C (string join -- ' ' $words[(math $at + 1)..-1])
end
complete -c uzswap -n "__fish_uzswap_using_subcommand run; and contains -- -- (commandline -opc)" -x -a "(__fish_uzswap_command)"

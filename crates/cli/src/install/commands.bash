
# Behind `uzswap run --` stands another command line.
_uzswap_or_command() {
    local i current=${COMP_WORDS[COMP_CWORD]}
    if [[ ${COMP_WORDS[1]} == run ]]; then
        for ((i = 2; i < COMP_CWORD; i++)); do
            [[ ${COMP_WORDS[i]} == -- ]] || continue
            if declare -F _command_offset >/dev/null; then
                _command_offset $((i + 1))
            elif ((i + 1 == COMP_CWORD)); then
                mapfile -t COMPREPLY < <(compgen -c -- "$current")
            fi
            return
        done
    fi
    if ((COMP_CWORD >= 2)) && [[ $current != -* ]]; then
        case ${COMP_WORDS[1]}:$COMP_CWORD in
            stat:2 | get:2 | set:2 | reclaim:2)
                mapfile -t COMPREPLY < <(compgen -W "$(_uzswap_groups)" -- "$current")
                return
                ;;
            set:*)
                # A = is a word of its own, and what follows it is a value.
                [[ $current == = || ${COMP_WORDS[COMP_CWORD - 1]} == = ]] && return
                mapfile -t COMPREPLY < <(compgen -S = -W "$_uzswap_keys" -- "$current")
                compopt -o nospace 2>/dev/null
                return
                ;;
        esac
    fi
    _uzswap "$@"
}
_uzswap_keys="@KEYS@"
_uzswap_keys=${_uzswap_keys//,/}
# Names of the groups that run.
_uzswap_groups() {
    "${COMP_WORDS[0]}" list --json 2>/dev/null | sed -n 's/^ *"group": "\([^"]*\)",*$/\1/p'
}
complete -F _uzswap_or_command -o bashdefault -o default uzswap

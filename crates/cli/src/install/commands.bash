
# Behind `uzswap run --` stands another command line.
_uzswap_or_command() {
    local i
    if [[ ${COMP_WORDS[1]} == run ]]; then
        for ((i = 2; i < COMP_CWORD; i++)); do
            [[ ${COMP_WORDS[i]} == -- ]] || continue
            if declare -F _command_offset >/dev/null; then
                _command_offset $((i + 1))
            elif ((i + 1 == COMP_CWORD)); then
                mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
            fi
            return
        done
    fi
    _uzswap "$@"
}
complete -F _uzswap_or_command -o bashdefault -o default uzswap

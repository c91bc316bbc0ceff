#!/usr/bin/env bash
# Installs uzswap, its manual pages and the completions of bash, zsh and fish below a directory.
# Usage: contrib/install.sh PREFIX [path-to-uzswap]
# PREFIX is /usr/local, say. The executable is target/release/uzswap unless told otherwise. ZSH_FUNCTIONS says where zsh
# looks for completions below PREFIX.
set -euo pipefail
umask 022

(($# >= 1)) || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
sources=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
prefix=$(realpath -m -- "$1")
uzswap=$(realpath -- "${2:-${CARGO_TARGET_DIR:-$sources/target}/release/uzswap}")

# completions SHELL FILE
completions() {
    mkdir -p "$(dirname "$prefix/$2")"
    "$uzswap" completions "$1" >"$prefix/$2"
}

install -D -m 755 -- "$uzswap" "$prefix/bin/uzswap"
"$uzswap" man "$prefix/share/man/man1"
completions bash share/bash-completion/completions/uzswap
completions zsh "${ZSH_FUNCTIONS:-share/zsh/site-functions}/_uzswap"
completions fish share/fish/vendor_completions.d/uzswap.fish

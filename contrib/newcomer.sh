#!/usr/bin/env bash
# The first five minutes of a newcomer: a clean root of Debian with the package and nothing else. As an ordinary user:
# doctor, try, GNU sort under half of what it takes, looked at while it runs, and its page read.
# Usage: contrib/newcomer.sh [path-to-uzswap]
# Takes: 5 minutes and 400 MB of disk; needs root, debootstrap, dpkg-dev and a mirror of Debian.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../accept/harness.sh"
source "$accept_dir/debian.sh"
began=$SECONDS
begin "$@"
need debootstrap chroot dpkg-deb dpkg-shlibdeps

# says WORD... -- CMD...: CMD, as the user, succeeds, prints all that, and is shown.
says() {
    local words=() word
    while [[ $1 != -- ]]; do
        words+=("$1")
        shift
    done
    shift
    as_user "$@" >"$work/said" 2>&1 || { cat "$work/said"; return 1; }
    sed 's/^/     | /' "$work/said" | cut -c 1-120 | head -n 30
    for word in "${words[@]}"; do
        grep -q -e "$word" "$work/said" || { say "nothing of '$word'"; return 1; }
    done
}

# In the user's home. The input of sort stays open until `go` is there, so that it can be looked at.
home() {
    says "${@:2}" -- sh -c "cd && $1"
}

is_listed() {
    local tries
    for ((tries = 0; tries < 600; tries++)); do
        as_user uzswap list | grep -q '^mine ' && return 0
        sleep 0.1
    done
    return 1
}

# What is read of a page by whoever looks at its words.
words_of() {
    sed -e '/<style>/,/<\/style>/d' -e 's/<[^>]*>/ /g' "$1" | tr -s ' \n' | sed '/[a-z]/!d; s/^/     |/'
}

deb=$(build_package "$work/out")
make_root bookworm
check "1. the package installs" install_package "$deb"
check "2. doctor says that it runs here" says 'can be managed' -- uzswap doctor
as_user sh -c 'cd && seq 1 700000 | sed "s/.*/& of the lines that are sorted/" | shuf >lines && LC_ALL=C sort lines >expected'
check "3. try names a limit" home 'uzswap try --at 80,60 --export-markdown try.md -- sort -S 100M --parallel=1 -o sorted lines && cat try.md' \
    limit slower ' ok '

as_user sh -c 'cd && { cat lines; until [ -e go ]; do sleep 0.1; done; } |
    LC_ALL=C uzswap run --memory-max 50M --name mine --summary --report run.html -- sort -S 100M --parallel=1 >sorted 2>summary' &
run=$!
on_exit stop "$run"
check "4. the run is listed" is_listed
check "5. list shows it" says mine sort -- uzswap list --all
check "6. stat shows its counters" says memory.current pool_total_size -- uzswap stat mine
check "7. top shows it without a terminal" says mine sort -- uzswap top -n 1
check "8. a lower limit is taken" as_user uzswap set mine memory.max=45M
as_user touch /home/someone/go
check "9. sort ends as it does elsewhere" wait "$run"
check "10. its lines are in order" cmp "$root/home/someone/expected" "$root/home/someone/sorted"
check "11. the summary says what was saved" home 'cat summary' 'peak' 'saved'
words_of "$root/home/someone/run.html" >"$work/words"
check "12. its page says what happened" grep -q -i -e 'resident' "$work/words"
head -n 16 "$work/words" | cut -c 1-120
say "$((SECONDS - began)) s"
verdict

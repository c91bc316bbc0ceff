#!/usr/bin/env bash
# Shows: `make -j4` of git (about 350 C files) under a limit of 60 % of the anonymous memory that it needs makes the same
# objects and the same program, byte for byte.
# Usage: accept/make.sh [path-to-uzswap [limit-in-mebibytes]]
# Takes: 5 to 20 minutes; 400 MiB of memory, 1 GiB of disk in $TMPDIR or /var/tmp; needs make, gcc, zlib1g-dev and git's
# sources: GIT_SOURCE in the environment names them, or they come by `apt-get source git`.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

begin "$@"
need make gcc

if [[ -z ${GIT_SOURCE:-} ]]; then
    (cd "$work" && apt-get source -q git >apt.log 2>&1) || die "apt-get source git: $(tail -n 1 "$work/apt.log")"
    GIT_SOURCE=$(echo "$work"/git-*/)
fi

# Both are made in one directory, so that nothing in the files has a reason to differ.
prepare() {
    rm -rf "$work/git"
    cp -r "$GIT_SOURCE" "$work/git"
    make -C "$work/git" clean >/dev/null 2>&1
}

# made OUTPUT: the sum of each file that make made, and the count of objects.
made() {
    (cd "$work/git" && find . \( -name '*.o' -o -name '*.a' -o -name git \) -type f -print0 | sort -z | xargs -0 sha256sum) >"$1"
    "$work/git/git" --exec-path="$work/git" diff --no-index --stat "$work/git/Makefile" "$work/git/config.mak.uname" >>"$1" || true
    "$work/git/git" version --build-options >>"$1"
}

building=(make -j4 -C "$work/git" NO_CURL=1 NO_TCLTK=1 NO_GETTEXT=1 NO_PERL=1 NO_PYTHON=1 CFLAGS=-O2 git)
prepare
run_unmanaged unmanaged "$python" -c '
import subprocess, sys
build = subprocess.Popen(sys.argv[3:])
sampler = subprocess.Popen([sys.executable, sys.argv[1], str(build.pid), sys.argv[2], "50"])
status = build.wait()
sampler.terminate()
sampler.wait()
sys.exit(status)' "$accept_dir/memory_sampler.py" "$work/peaks" "${building[@]}"
made "$work/unmanaged.sums"
peak_mib=$(($(field "$work/peaks" family_rss_anon_peak) / 1024))
limit_mib=${2:-$((peak_mib * 6 / 10))}
say "$(grep -c '\.o$' "$work/unmanaged.sums") objects; peak of RssAnon, all processes: $peak_mib MiB; limit: ${limit_mib}M"

prepare
run_managed managed "${limit_mib}M" timeout 1800 "${building[@]}"
made "$work/managed.sums"
check "both exited with status 0" test "$(status_of unmanaged)$(status_of managed)" = 00
check_swapped "$work/managed.json"
check "the same objects and program" cmp "$work/unmanaged.sums" "$work/managed.sums"
# Four jobs print in any order.
check "make printed the same to stderr" \
    cmp <(sort "$work/unmanaged.stderr") <(sed "/^uzswap: group/,\$d" "$work/managed.stderr" | sort)
say "managed / unmanaged time: $(calc "$(field "$work/managed.took" seconds) / $(field "$work/unmanaged.took" seconds)")"
verdict

#!/usr/bin/env bash
# Shows: the Debian package of contrib/deb is well made (lintian, systemd-analyze verify, the same twice), installs into
# a minimal root of Debian with no other package, there runs a heap of twice the limit as an ordinary user, follows its
# files of settings, and leaves no file behind when it is purged.
# Usage: accept/package.sh [path-to-uzswap]
# Takes: 3 minutes and 300 MB of disk; needs root, debootstrap, dpkg-dev and a mirror of Debian; lintian, man and
# systemd-analyze where they are there.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"
source "$accept_dir/debian.sh"
begin "$@"
need debootstrap chroot dpkg-deb dpkg-shlibdeps

# The files of the root, but for those that dpkg keeps of any change.
files_there() {
    there find / -xdev ! -path '/var/lib/dpkg/*' ! -path '/var/log/*' ! -path '/var/cache/*' ! -path /etc/uzswap.toml | sort
}

is_refused() {
    local line
    line=$(as_user uzswap run -- true 2>&1) && return 1
    say "$line"
    [[ $line == *"$1"* ]]
}

reads_as_manual() {
    local page
    for page in "$work"/pages/usr/share/man/man1/*.gz; do
        [[ -z $(MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null) ]] || return 1
    done
}

# The unit, with a program in place of the one that is not installed here.
unit_is_sound() {
    sed 's|/usr/bin/uzswap|/bin/true|' "$work/pages/usr/lib/systemd/system/uzswap@.service" >"$work/uzswap@.service"
    # It reads the machine's own units, too, whose errors are not ours.
    systemd-analyze verify --man=no "$work/uzswap@x.service" 2>"$work/verify" || return
    ! grep -F 'uzswap@' "$work/verify"
}

deb=$(build_package "$work/out")
say "$(basename "$deb"): $(stat -c %s "$deb") bytes, $(dpkg-deb -f "$deb" Depends)"
check "the same twice" cmp "$deb" "$(build_package "$work/again")"
dpkg-deb -x "$deb" "$work/pages"
if command -v lintian >/dev/null; then
    # The sources name no address.
    check "lintian has no complaint" lintian --allow-root --fail-on error,warning \
        --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog "$deb"
fi
if command -v man >/dev/null; then
    check "the manual pages have no error" reads_as_manual
fi
if command -v systemd-analyze >/dev/null; then
    check "the unit has no error" unit_is_sound
fi

make_root bookworm
files_there >"$work/before"
check "installs with nothing else" install_package "$deb"
check "is whole" there dpkg --verify uzswap
say "$(as_user uzswap --version)"
check "an ordinary user can run it here" as_user uzswap doctor

cat >"$root/home/someone/heap.pl" <<'PERL'
my @pages = map { chr(65 + $_ % 26) x 2048 . $_ x 400 } 1 .. 30_000;
for my $i (1 .. 30_000) {
    die "page $i differs" unless $pages[$i - 1] eq chr(65 + $i % 26) x 2048 . $i x 400;
}
print "whole";
PERL
answer=$(as_user uzswap run --memory-max 64M --quiet --stat-json /home/someone/heap.json -- perl /home/someone/heap.pl) || true
check "a heap of twice the limit is whole" test "$answer" = whole
check_swapped "$root/home/someone/heap.json"

as_user mkdir /home/someone/.config
printf '[run]\nmemory-max = "48M"\n' >"$root/etc/uzswap.toml"
limit() {
    as_user "$@" --stat-json /home/someone/limit.json -- true
    counter "$root/home/someone/limit.json" memory.max
}
check "/etc/uzswap.toml holds" test "$(limit uzswap run)" = $((48 << 20))
as_user sh -c 'echo "run.memory-max = \"56M\"" >/home/someone/.config/uzswap.toml'
check "the user's own is over it" test "$(limit uzswap run)" = $((56 << 20))
check "the environment is over both" test "$(limit env UZSWAP_MEMORY_MAX=60M uzswap run)" = $((60 << 20))
check "the command line is over all" test "$(limit env UZSWAP_MEMORY_MAX=60M uzswap run --memory-max 64M)" = $((64 << 20))
printf '[run]\nmemory-max = "a lot"\n' >"$root/etc/uzswap.toml"
check "a bad setting is named" is_refused "/etc/uzswap.toml:2: memory-max: 'a lot' is not a size"
chmod 600 "$root/etc/uzswap.toml"
check "settings that may not be read are told" is_refused "/etc/uzswap.toml: Permission denied"
rm "$root/etc/uzswap.toml"
rm -r "$root/home/someone/.config" "$root"/home/someone/*

check "bash completes" there bash -c \
    'source /usr/share/bash-completion/completions/uzswap && complete -p uzswap >/dev/null'
check "it is removed" there dpkg -r uzswap
check "it is purged" there dpkg -P uzswap
# What its runs made, which are not dpkg's to know: the agent as it was loaded.
rm -rf "$root"/tmp/uzswap-*
files_there >"$work/after"
check "no file is left" diff "$work/before" "$work/after"
verdict

#!/usr/bin/env bash
# Makes an archive of a static uzswap, its manual pages and completions: uzswap-VERSION-x86_64-linux.tar.gz. It needs
# nothing of the machine where it is unpacked: tar -C /usr/local --strip-components=1 -xf ARCHIVE
# Usage: contrib/tarball.sh [OUT]
# OUT is a directory, by default target/tarball.
set -euo pipefail
umask 022

sources=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=$(realpath -m -- "${1:-$sources/target/tarball}")

cd "$sources"
# Only the last step differs, so that nothing else is built again. The next `cargo build` links it with libc again.
cargo rustc --release --package uzswap --bin uzswap -- -C target-feature=+crt-static
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
cp "${CARGO_TARGET_DIR:-target}/release/uzswap" "$work/uzswap"
strip --strip-unneeded "$work/uzswap"
version=$("$work/uzswap" --version | cut -d ' ' -f 2)
name=uzswap-$version-x86_64-linux
contrib/install.sh "$work/$name" "$work/uzswap"
install -D -m 644 -t "$work/$name/share/doc/uzswap" README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE
day=$(git log -1 --format=%ct 2>/dev/null || echo 0)
mkdir -p "$out"
tar -C "$work" --owner=0 --group=0 --numeric-owner --sort=name --mtime="@$day" -c "$name" | gzip -9n >"$out/$name.tar.gz"
echo "$out/$name.tar.gz"

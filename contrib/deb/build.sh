#!/usr/bin/env bash
# Makes the Debian package: uzswap_VERSION_ARCH.deb.
# Usage: contrib/deb/build.sh [OUT [path-to-uzswap]]
# OUT is a directory, by default target/debian. Without a path uzswap is built first (release).
# Needs dpkg-dev, binutils, gzip. The same sources and executable make the same package. DEBFULLNAME and DEBEMAIL are
# its maintainer.
set -euo pipefail
umask 022

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
sources=$(cd "$here/../.." && pwd)
out=$(realpath -m -- "${1:-$sources/target/debian}")

if (($# < 2)); then
    cargo build --release --manifest-path "$sources/Cargo.toml" --package uzswap --bin uzswap
fi
uzswap=$(realpath -- "${2:-${CARGO_TARGET_DIR:-$sources/target}/release/uzswap}")
version=$("$uzswap" --version | cut -d ' ' -f 2)
arch=$(dpkg --print-architecture)
maintainer="${DEBFULLNAME:-The uzswap authors} <${DEBEMAIL:-uzswap@localhost}>"
# The day of the sources, where git knows it; of files and of the changelog.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$sources" log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
root=$work/root
doc=$root/usr/share/doc/uzswap

# file MODE FROM TO: one file of the package.
file() {
    install -D -m "$1" -- "$2" "$root/$3"
}

the_program() {
    ZSH_FUNCTIONS=share/zsh/vendor-completions "$here/../install.sh" "$root/usr" "$uzswap"
    strip --strip-unneeded --remove-section=.comment --remove-section=.note "$root/usr/bin/uzswap"
    file 644 "$here/uzswap@.service" usr/lib/systemd/system/uzswap@.service
}

the_documents() {
    file 644 "$sources/README.md" usr/share/doc/uzswap/README.md
    (cd "$sources" && find docs -name '*.md' -exec install -D -m 644 {} "$doc/{}" \;)
    file 644 "$here/copyright" usr/share/doc/uzswap/copyright
    file 644 "$sources/CHANGELOG.md" usr/share/doc/uzswap/CHANGELOG.md
    cat >"$doc/changelog" <<CHANGELOG
uzswap ($version) unstable; urgency=medium

  * Made of $("$uzswap" --version); CHANGELOG.md says what is new.

 -- $maintainer  $(date -R -u -d "@$SOURCE_DATE_EPOCH")
CHANGELOG
    (cd "$here/examples" && find . -type f -exec install -D -m 644 {} "$doc/examples/{}" \;)
    file 644 "$sources/contrib/grafana/uzswap.json" usr/share/doc/uzswap/examples/grafana.json
    gzip -9n "$doc/changelog" "$doc/CHANGELOG.md" "$root"/usr/share/man/man1/*.1
    find "$doc/docs" -type f -size +3k -exec gzip -9n {} +
}

# What the executable is linked with, as Debian's packages are named.
depends() {
    mkdir -p "$work/shlibs/debian"
    printf 'Source: uzswap\n\nPackage: uzswap\nArchitecture: %s\n' "$arch" >"$work/shlibs/debian/control"
    (cd "$work/shlibs" && dpkg-shlibdeps -O "$root/usr/bin/uzswap" 2>/dev/null) | sed -n 's/^shlibs:Depends=//p'
}

the_control_files() {
    local size
    size=$(du -sk --apparent-size "$root" | cut -f 1)
    mkdir -p "$root/DEBIAN"
    (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
    cat >"$root/DEBIAN/control" <<CONTROL
Package: uzswap
Version: $version
Architecture: $arch
Maintainer: $maintainer
Installed-Size: $size
Depends: $(depends)
Section: utils
Priority: optional
Description: zswap in user space
 uzswap run runs an unmodified program in a fraction of its memory. It takes the
 program's cold anonymous pages out with userfaultfd, compresses them into a
 pool inside the process, and writes the oldest to a swap file when the pool is
 full. A fault brings a page back.
 .
 It needs no swap device, no control group, no daemon, and from Linux 5.14 on no
 privilege.
CONTROL
}

the_program
the_documents
the_control_files
mkdir -p "$out"
dpkg-deb --root-owner-group --build "$root" "$out/uzswap_${version}_$arch.deb"

# shellcheck shell=bash
# A clean root of Debian, for scripts that have sourced harness.sh and begun. `make_root RELEASE [OPTION of debootstrap]...`
# makes it at $root, with an ordinary user `someone`. It is gone when the script ends.

# there CMD...: CMD in the root; as_user CMD...: the same as someone.
there() {
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"
}

as_user() {
    chroot --userspec=someone:someone "$root" env -i PATH=/usr/bin:/bin HOME=/home/someone "$@"
}

make_root() {
    local release=$1
    shift
    root=$work/root
    debootstrap --variant=minbase "$@" "$release" "$root" >"$work/debootstrap.log" 2>&1 ||
        die "no root: $(tail -1 "$work/debootstrap.log")"
    there useradd --create-home someone
    mount -t proc proc "$root/proc" && on_exit umount "$root/proc"
    mount --bind /dev "$root/dev" && on_exit umount "$root/dev"
    mount --bind /sys "$root/sys" && on_exit umount "$root/sys"
}

# build_package OUT: the package of $uzswap; its path.
build_package() {
    "$accept_dir/../contrib/deb/build.sh" "$1" "$uzswap" | sed -n "s/.* in '\(.*\)'\.$/\1/p"
}

# install_package DEB: as root, with nothing but what is there.
install_package() {
    cp "$1" "$root/root/uzswap.deb" && there dpkg -i /root/uzswap.deb && rm "$root/root/uzswap.deb"
}

#!/usr/bin/env bash
# Shows: on the kernel of Debian 12 (6.1, which cannot move pages) programs end as without uzswap, as root and as an ordinary user: a dict of
# CPython twice its limit and a child that reads it, a hash of Perl, a shell with pipes, forks by system calls, the
# torture. The clock there is one that takes a system call; at last it becomes one while a program meets its faults.
# Each program runs on both sides, in QEMU without KVM.
# Usage: accept/old_kernel.sh [path-to-uzswap]
# Takes: 20 minutes; needs qemu-system-x86, busybox-static, cpio, gcc, a mirror of Debian, and uzswap-torture beside uzswap.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"
begin "$@"
need qemu-system-x86_64 busybox cpio gcc apt-get dpkg ldd perl
programs=$accept_dir/../crates/cli/tests/programs
cd "$work"

package=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image-6/ { print $2; exit }')
apt-get download -qq "$package" 2>"$work/apt.log" || die "no kernel: $(tail -1 "$work/apt.log")"
dpkg -x "$package"*.deb kernel

mkdir -p root/{bin,dev,proc,sys,tmp,etc,usr/lib} && cd root
cp "$(command -v busybox)" bin/busybox
for name in sh mount uname poweroff chmod su sort seq tr md5sum cmp timeout head; do ln -s busybox "bin/$name"; done
cp "$uzswap" bin/uzswap && cp "$(dirname "$uzswap")/uzswap-torture" bin/torture
system_python=$(readlink -f /usr/bin/python3)
cp "$system_python" bin/python3 && cp "$(command -v perl)" bin/perl
gcc -O2 -pthread -o bin/births "$programs/births.c"
ldd bin/{uzswap,torture,births,python3,perl} | grep -o '/lib[^ ]*' | sort -u | while read -r library; do cp -L --parents "$library" .; done
cp -a --parents "/usr/lib/$(basename "$system_python")" . && find . \( -name __pycache__ -o -name test \) -prune -exec rm -rf {} +
printf 'root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n' >etc/passwd

cat >dict.py <<'PYTHON'
import hashlib, os

texts = {i: f"text {i} " * 20 for i in range(100_000)}
if os.fork() == 0:
    print(sum(map(len, texts.values())), flush=True)
    os._exit(0)
os.wait()
digest = hashlib.sha256()
for i in range(0, 100_000, 7):
    digest.update(texts[i].encode())
print(digest.hexdigest())
PYTHON
cat >touch.py <<'PYTHON'
import signal

over = []
signal.signal(signal.SIGALRM, lambda *_: over.append(1))
signal.alarm(12)
pages = bytearray(40 << 20)
for i in range(0, len(pages), 4096):
    pages[i : i + 8] = i.to_bytes(8, "little")
at = 1
while not over:
    at = (at * 1103515245 + 12345) % 10240
    assert int.from_bytes(pages[at * 4096 : at * 4096 + 8], "little") == at * 4096
print("touched")
PYTHON
cat >all <<'SHELL'
compare() {
    "$@" >/tmp/$who.plain 2>&1
    plain=$?
    timeout 900 uzswap run --quiet --memory-max 24M --swap /tmp -- "$@" >/tmp/$who.managed 2>&1
    managed=$?
    result=differs
    [ $plain = $managed ] && cmp -s /tmp/$who.plain /tmp/$who.managed && result=same
    echo "RESULT $who $result ($plain, $managed): $* $([ $result = same ] || head -c 300 /tmp/$who.managed)"
}
compare python3 /dict.py
compare perl -e 'my %h; $h{$_} = "text of $_" for 1..80000; my $s = 0; $s += length $h{$_} for keys %h; print "$s\n"; exit 3'
compare sh -c 'seq 1 100000 | tr 0-9 5-90-4 | sort | md5sum'
compare births raw-forks
compare births raw-generations
compare births work 48 5
# It says how much it did, which differs.
compare sh -c 'torture --seconds 3 --threads 2 >/dev/null'
SHELL
cat >init <<'SHELL'
#!/bin/sh
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp; chmod 1777 /tmp
clock=/sys/devices/system/clocksource/clocksource0/current_clocksource
echo hpet >$clock
echo "RESULT Linux $(uname -r)"
who=root sh /all
su nobody -c 'who=nobody sh /all'
for way in --guard=on --backend=mprotect; do
    echo tsc >$clock
    before=$(cat $clock)
    uzswap run --quiet --memory-max 24M --swap /tmp $way -- python3 /touch.py >/tmp/touched 2>&1 &
    sleep 6
    echo hpet >$clock
    wait $!
    echo "RESULT clock $? $way: $before $(cat $clock) $(head -c 300 /tmp/touched)"
done
echo "RESULT over"
poweroff -f
SHELL
chmod 755 init all dict.py touch.py
find . | cpio -o -H newc 2>/dev/null | gzip -1 >../initrd.gz
cd ..

timeout 2400 qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 1024 -kernel kernel/boot/vmlinuz-* -initrd initrd.gz \
    -append "console=ttyS0 quiet panic=-1 tsc=reliable" -nographic -no-reboot </dev/null >console.log || true
results=$(tr -d '\r' <console.log | grep -ao 'RESULT .*' | cut -d ' ' -f 2- || true)
while read -r line; do say "$line"; done <<<"$results"
check "all programs were run on both sides" grep -q '^over$' <<<"$results"
check "a clock that becomes one of system calls ends nothing, in both ways" \
    test "$(grep -c '^clock 0 .*: tsc hpet touched$' <<<"$results")" = 2
for who in root nobody; do
    check "as $who each of 7 programs ends as without uzswap" test "$(grep -c "^$who same" <<<"$results")" = 7
done
verdict

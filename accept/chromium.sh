#!/usr/bin/env bash
# Shows: Chromium without a window, with its sandbox, loads a page that fills its heap, as a user without any privilege: the
# document that it dumps is the same under the limit as unmanaged. (Without a sandbox that works it refuses to begin.)
# Usage: accept/chromium.sh [path-to-uzswap [limit]]
# Takes: half a minute; a gibibyte of memory; needs chromium, and namespaces for ordinary users. Run as root it becomes nobody.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"
begin "$@"
need chromium setpriv
limit=${2:-224M}

as_user=()
if ((EUID == 0)); then
    as_user=(setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set -all --inh-caps -all)
    cp "$uzswap" "$work/uzswap"
    uzswap=$work/uzswap
    chmod 755 "$work" "$uzswap"
    mkdir "$work/home"
    chown 65534:65534 "$work/home"
else
    mkdir "$work/home"
fi

cat >"$work/page.html" <<'END'
<!DOCTYPE html><title>heap</title><p id=sum></p>
<script>
const lists = Array.from({length: 200}, (_, i) =>
    Array.from({length: 2000}, (_, j) => ({number: i * j, name: `entry ${i} of ${j}`})));
let sum = 0;
for (const list of lists) for (const entry of list) sum = (sum * 31 + entry.number + entry.name.length) % 1000000007;
document.getElementById("sum").textContent = sum;
for (let i = 0; i < 2000; i++) {
    const line = document.createElement("p");
    line.textContent = lists[i % 200][i].name;
    document.body.append(line);
}
</script>
END
chmod 644 "$work/page.html"

# browser NAME COMMAND...: its document in NAME.stdout; COMMAND stands before it.
browser() {
    local name=$1
    shift
    (
        cd "$work/home"
        HOME=$work/home TMPDIR=$work/home "${as_user[@]}" timeout -s KILL 120 "$@" chromium --headless --disable-gpu \
            --user-data-dir="$work/home/$name" --virtual-time-budget=60000 --dump-dom "file://$work/page.html" \
            >"$work/$name.stdout" 2>"$work/$name.stderr"
    ) && echo 0 >"$work/$name.status" || echo $? >"$work/$name.status"
}

browser unmanaged
browser managed "$uzswap" run --memory-max "$limit" --stat-json "$work/home/json" --
check "both exited with status 0" test "$(cat "$work/unmanaged.status")$(cat "$work/managed.status")" = 00
check "it has a document" grep -q "entry 1 of 1" "$work/managed.stdout"
check "the document is the same" cmp "$work/unmanaged.stdout" "$work/managed.stdout"
# Its renderers are not managed, for want of a /proc in their root directory, and are charged.
say "zswpout $(counter "$work/home/json" zswpout), highest charge $(($(counter "$work/home/json" memory.peak) >> 20)) MiB of $limit"
grep -h "^uzswap:" "$work/managed.stderr" | sed 's/^/     | /' || true
verdict

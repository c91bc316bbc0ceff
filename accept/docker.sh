#!/usr/bin/env bash
# Shows: programs are managed in containers as Docker makes them by default, whose filter of system calls forbids userfaultfd: as root and as an
# ordinary user, with a read-only root, a /tmp that nothing can be executed from and a volume for swap files. Each program's output is compared with an unmanaged run in the
# same container, and pages went out. A program that is not there is left out.
# Usage: accept/docker.sh [path-to-uzswap]
# Takes: 6 minutes; needs a Docker daemon (DOCKER_HOST names it), gcc. The container has this machine's /usr, read-only.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"
begin "$@"
need docker gcc
docker version >"$work/docker.version" 2>&1 || die "no Docker daemon answers"

mkdir -p "$work/root"/{proc,sys,dev,tmp,var/tmp,usr,etc,run,it}
ln -s usr/bin usr/sbin usr/lib usr/lib64 "$work/root"
chmod 1777 "$work/root/tmp" "$work/root/var/tmp"
tar -c -C "$work/root" . | docker import - uzswap-accept >/dev/null
on_exit docker rmi -f uzswap-accept

chmod 755 "$work"
mkdir "$work/it"
cp "$uzswap" "$work/it/uzswap"
programs=$accept_dir/../crates/cli/tests/programs
gcc -O2 -pthread -o "$work/it/calls" "$programs/calls.c"
gcc -O2 -pthread -static -o "$work/it/calls-static" "$programs/calls.c" 2>/dev/null || true
cp "$accept_dir/heap.sql" "$work/it/"
cat >"$work/it/heap.py" <<'PYTHON'
import hashlib, multiprocessing, subprocess

pages = [bytes([i % 251]) * 1000 + str(i).encode() * 20 for i in range(60_000)]
digest = hashlib.sha256()
for _ in range(3):
    for page in pages[::7]:
        digest.update(page)
print(digest.hexdigest(), subprocess.run(["sh", "-c", "echo shell"], capture_output=True).stdout)


def part(i):
    return sum(len(page) + page[3] for page in pages[i::7])


with multiprocessing.Pool(3) as pool:
    print(sum(pool.map(part, range(7))))
PYTHON
cat >"$work/it/heap.mjs" <<'JAVASCRIPT'
const map = new Map();
for (let i = 0; i < 300000; i++) map.set("k" + i, { a: i, b: [i, i + 1], s: "x" + i });
let sum = 0;
for (let round = 0; round < 3; round++) for (let i = 0; i < 300000; i += 3) sum += map.get("k" + i).b[1];
console.log(sum);
JAVASCRIPT
cat >"$work/it/redis.sh" <<'REDIS'
redis-server --port 0 --unixsocket /tmp/redis.sock --save '' --appendonly no --dir /tmp --logfile /tmp/redis.log --enable-debug-command local &
ask() { redis-cli -s /tmp/redis.sock "$@"; }
until [[ $(ask PING 2>/dev/null) == PONG ]]; do sleep 0.1; done
ask DEBUG POPULATE 60000 key 900 >/dev/null
before=$(ask DEBUG DIGEST)
ask BGSAVE >/dev/null
redis-benchmark -s /tmp/redis.sock -q -t get -n 100000 -P 16 >/dev/null
while [[ $(ask INFO | tr -d '\r' | sed -n 's/^rdb_bgsave_in_progress://p') == 1 ]]; do sleep 0.1; done
[[ $(ask DEBUG DIGEST) == "$before" ]] && echo "same digest"
ask INFO | tr -d '\r' | grep '^rdb_last_bgsave_status'
ask SHUTDOWN NOSAVE
wait
REDIS

# in_container OPTIONS -- CMD...: what Docker's defaults allow, and no network.
in_container() {
    local options=()
    while [[ $1 != -- ]]; do
        options+=("$1")
        shift
    done
    shift
    timeout 300 docker run --rm --network none -v /usr:/usr:ro -v /etc:/etc:ro -v "$work/it:/it:ro" "${options[@]}" uzswap-accept "$@"
}

mkdir -m 1777 "$work/swap"
read_only="--read-only --tmpfs /tmp -v $work/swap:/var/tmp"

for options in "" "--user 1000" "$read_only" "--user 1000 $read_only"; do
    read -ra words <<<"$options"
    while read -r limit program cmd; do
        [[ -x /usr/bin/$program || -x $work/it/$program ]] || continue
        read -ra cmd <<<"$cmd"
        expected=$(in_container "${words[@]}" -- "${cmd[@]}" 2>&1) || true
        answer=$(in_container "${words[@]}" -- /it/uzswap run --memory-max "$limit" --summary -- "${cmd[@]}" 2>"$work/summary") || true
        check "${cmd[*]} at $limit, docker run ${options:-(defaults)}: as unmanaged" test "$answer" = "$expected"
        say "$(sed -n 's/^ *out: /out: /p' "$work/summary")"
        check "pages went out" grep -qE '^ *out: [1-9]' "$work/summary"
    done <<'LOADS'
48M python3 python3 /it/heap.py
24M calls /it/calls 40
24M calls-static /it/calls-static 40
80M node node /it/heap.mjs
48M redis-server bash /it/redis.sh
LOADS
done
verdict

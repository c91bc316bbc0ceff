#!/usr/bin/env bash
# Shows: a limit is the group's. A busy process gets the memory of an idle one, until all of its own is resident; a process that is
# killed gives its charge back; `list`, `stat` and `set` find the group by its name; a run inside a run is a group of its own.
# Usage: accept/group.sh [path-to-uzswap]
# Takes: 40 seconds; 256 MiB of memory.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"
begin "$@"

name=accept-group-$$
member=("$python" "$accept_dir/group_member.py")

current() {
    "$uzswap" stat "$name" --json | "$python" -c 'import json, sys; print(json.load(sys.stdin)["memory.current"] >> 20)'
}

cat >"$work/members.sh" <<MEMBERS
${member[@]} 200 0 16 >"$work/idle" &
echo \$! >"$work/idle.pid"
until grep -qs filled "$work/idle"; do sleep 0.1; done
${member[@]} 150 10 0 >"$work/busy" &
echo \$! >"$work/busy.pid"
wait
MEMBERS
resident() {
    awk '/^RssAnon/ { print int($2 / 1024) }' "/proc/$(<"$work/$1.pid")/status"
}

"$uzswap" run --memory-max 256M --name "$name" -- bash "$work/members.sh" &
run=$!
on_exit stop "$run"
until grep -qs filled "$work/busy"; do sleep 0.1; done
sleep 7
say "200 MiB idle, 150 MiB busy, limit 256M: the idle one has $(resident idle) MiB resident, pool included, the busy one $(resident busy)"
check "all of the busy process is resident" test "$(resident busy)" -ge 150
check "list shows the group" grep -q "$name" <("$uzswap" list)
check "its limit can be raised" "$uzswap" set "$name" memory.max=300M
wait "$run"
say "the busy one's last round: $(sed -n 's/^round //p' "$work/busy") ms"
check "every page of both is whole" test "$(cat "$work/idle" "$work/busy" | grep -c 'damaged 0')" = 2

cat >"$work/killed.sh" <<MEMBERS
${member[@]} 40 0 20 >"$work/stays" &
for i in 1 2 3 4 5 6; do
    ${member[@]} 60 0 60 >"$work/dies" &
    until grep -qs filled "$work/dies"; do sleep 0.1; done
    kill -KILL \$!
    rm "$work/dies"
done
wait %1
MEMBERS
"$uzswap" run --memory-max 200M --name "$name" -- bash "$work/killed.sh" 2>/dev/null &
run=$!
on_exit stop "$run"
sleep 12
say "after six of 60 MiB were killed: $(current) MiB charged; one of 40 MiB lives"
check "the killed are charged nothing" test "$(current)" -le 60
wait "$run" || true
check "the one that stayed is whole" grep -q 'damaged 0' "$work/stays"

"$uzswap" run --memory-max 64M --name "$name" -- "$uzswap" run --memory-max 32M --name "$name-inner" --stat-json "$work/inner.json" \
    -- "${member[@]}" 80 0 0 >"$work/inner"
check "a run inside a run has a limit of its own: peak $(($(counter "$work/inner.json" memory.peak) >> 20)) MiB of 32" \
    test "$(counter "$work/inner.json" memory.peak)" -le $((34 << 20))
check "and is whole" grep -q 'damaged 0' "$work/inner"
check "no group is left" test -z "$("$uzswap" list | grep "$name" || true)"
verdict

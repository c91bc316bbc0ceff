// Holds about a gigabyte of objects, strings, maps and typed arrays that can be recomputed, in the main thread and in two
// workers, changes them, checks every one, and prints sums. Also starts child processes from the large process.
// usage: node --max-old-space-size=4000 node_heap.mjs MEBIBYTES
import { Worker, isMainThread, parentPort, workerData } from "node:worker_threads";
import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { gzipSync, gunzipSync } from "node:zlib";

function mix(x) {
    x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
    x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
    return (x ^ (x >>> 16)) >>> 0;
}

function record(key, generation) {
    const seed = mix(key * 31 + generation);
    const numbers = new Array(20);
    for (let i = 0; i < 20; i++) numbers[i] = i % 2 ? i : mix(seed + i) / 3;
    return { key, generation, text: `record ${key} of generation ${generation} ${seed.toString(16).repeat(8)}`, numbers };
}

function check(found, key) {
    const expected = record(key, found.generation);
    if (found.key !== key || found.text !== expected.text) throw new Error(`record ${key} is damaged: ${found.text}`);
    for (let i = 0; i < 20; i++) if (found.numbers[i] !== expected.numbers[i]) throw new Error(`record ${key}: number ${i}`);
}

function work(name, mebibytes) {
    const count = Math.floor((mebibytes * 1024 * 1024) / 700);
    const map = new Map();
    const buffers = [];
    for (let key = 0; key < count; key++) {
        map.set(`key ${key}`, record(key, 0));
        if (key % 100 === 0) buffers.push(Buffer.alloc(16384, `buffer ${key}`));
    }
    for (let round = 1; round <= 2; round++) {
        for (let key = 0; key < count; key++) {
            if (mix(key + round * 7919) % 8 === 0) map.set(`key ${key}`, record(key, round));
            else if (mix(key + round * 104729) % 16 === 1) {
                map.delete(`key ${key}`);
                map.set(`key ${key}`, record(key, round + 10));
            }
        }
        const hash = createHash("sha256");
        for (const [name, value] of map) {
            check(value, Number(name.slice(4)));
            hash.update(`${value.generation}:${value.numbers[2]}`);
        }
        buffers.forEach((buffer, i) => {
            if (!buffer.equals(Buffer.alloc(16384, `buffer ${i * 100}`))) throw new Error(`buffer ${i} is damaged`);
            if (i % 50 === 0 && !gunzipSync(gzipSync(buffer)).equals(buffer)) throw new Error(`zlib: buffer ${i}`);
        });
        const line = `${name} round ${round} ${hash.digest("hex")}`;
        if (isMainThread) console.log(line);
        else parentPort.postMessage(line);
    }
    return map.size;
}

function once(emitter, event) {
    return new Promise((resolve, reject) => {
        emitter.once(event, resolve);
        emitter.once("error", reject);
    });
}

if (!isMainThread) {
    work(workerData.name, workerData.mebibytes);
} else {
    const share = Number(process.argv[2]) / 4;
    const lines = [];
    const workers = ["worker A", "worker B"].map((name) => {
        const worker = new Worker(new URL(import.meta.url), {
            workerData: { name, mebibytes: share },
            resourceLimits: { maxOldGenerationSizeMb: 2000 },
        });
        worker.on("message", (line) => lines.push(line));
        return once(worker, "exit");
    });
    work("main", 2 * share);
    console.log(`exit codes of the workers: ${await Promise.all(workers)}`);
    console.log(lines.sort().join("\n"));
    for (let i = 0; i < 20; i++) execFileSync("/bin/true");
    console.log(execFileSync("/bin/sh", ["-c", "echo child $((6 * 7)); cat"], { input: "from the parent\n" }).toString().trim());
    const child = spawn(process.execPath, ["-e", "process.stdin.on('data', d => process.stdout.write(String(d.length) + '\\n'))"]);
    let answer = "";
    child.stdout.on("data", (data) => (answer += data));
    child.stdin.end("x".repeat(1000));
    console.log(`node child: exit ${await once(child, "close")}, ${answer.split("\n").reduce((a, b) => a + Number(b), 0)} bytes`);
}

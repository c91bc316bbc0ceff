//! Compressors on the pages of a file, for the tables of `bench/gpu`.
//!
//! ```text
//! pages time FILE COMPRESSOR THREADS    microseconds a page, as a line of JSON
//! pages check FILE COMPRESSOR BLOCKS    whether blocks that another made are pages of FILE
//! ```
//! BLOCKS has for each page the length of its block, in 4 bytes, and the block.

use std::hint::black_box;
use std::time::Instant;
use std::{env, fs, thread};

use uzswap_acomp::{Algorithm, Compressor, Context};

const PAGE: usize = 4096;
/// The most that a block takes, also where a page does not shrink.
const ROOM: usize = 2 * PAGE;
const ROUNDS: usize = 5;
/// Pages that are decompressed one by one, each timed.
const TIMED: usize = 20_000;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

fn main() {
    let args: Vec<String> = env::args().collect();
    let [_, what, file, compressor, last] = args.as_slice() else {
        panic!("usage: pages time FILE COMPRESSOR THREADS | pages check FILE COMPRESSOR BLOCKS");
    };
    let algorithm = Compressor::parse(compressor).expect("COMPRESSOR").algorithm;
    let bytes = fs::read(file).expect("FILE");
    let pages = bytes.as_chunks::<PAGE>().0;
    match &**what {
        "time" => time(pages, algorithm, compressor, last.parse().expect("THREADS")),
        "check" => check(pages, algorithm, compressor, &fs::read(last).expect("BLOCKS")),
        _ => panic!("{what}: must be time or check"),
    }
}

fn compressed(context: &mut Context, page: &[u8; PAGE], out: &mut [u8]) -> usize {
    context.compress_page(page, out).expect("there is room for any page")
}

/// The best of some rounds, as others use the machine.
fn time(pages: &[[u8; PAGE]], algorithm: Algorithm, name: &str, threads: usize) {
    let share = pages.len().div_ceil(threads);
    let blocks: Vec<Vec<Vec<u8>>> = thread::scope(|scope| {
        let lanes: Vec<_> = pages
            .chunks(share)
            .map(|part| scope.spawn(move || blocks_of(part, algorithm)))
            .collect();
        lanes.into_iter().map(|lane| lane.join().expect("no panic")).collect()
    });
    let us_a_page = |work: &(dyn Fn(usize) + Sync)| {
        let round = |_| {
            let start = Instant::now();
            thread::scope(|scope| {
                for lane in 0..blocks.len() {
                    scope.spawn(move || work(lane));
                }
            });
            start.elapsed().as_secs_f64() * 1e6 / pages.len() as f64
        };
        (0..ROUNDS).map(round).fold(f64::MAX, f64::min)
    };
    let compress = us_a_page(&|lane| {
        let (mut context, mut out) = (Context::new(algorithm), vec![0; ROOM]);
        for page in &pages[lane * share..pages.len().min((lane + 1) * share)] {
            black_box(compressed(&mut context, page, &mut out));
        }
    });
    let decompress = us_a_page(&|lane| {
        let (mut context, mut out) = (Context::new(algorithm), vec![0; PAGE]);
        for block in &blocks[lane] {
            assert!(context.decompress(block, &mut out), "a block that was just made");
            black_box(&out);
        }
    });
    let all: Vec<&Vec<u8>> = blocks.iter().flatten().collect();
    let stored: usize = all.iter().map(|block| block.len()).sum();
    let (mut context, mut out) = (Context::new(algorithm), vec![0; PAGE]);
    let mut loads: Vec<f64> = (0..TIMED)
        // A prime, so that blocks are far from one another.
        .map(|i| {
            let start = Instant::now();
            assert!(
                context.decompress(all[i * 7919 % all.len()], &mut out),
                "a block that was just made"
            );
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    loads.sort_by(f64::total_cmp);
    println!(
        r#"{{"side":"cpu","codec":"{name}","threads":{threads},"compress_us":{compress:.4},"decompress_us":{decompress:.4},"ratio":{:.3},"load_p50_us":{:.2},"load_p99_us":{:.2}}}"#,
        size_of_val(pages) as f64 / stored as f64,
        loads[TIMED / 2],
        loads[TIMED / 100 * 99],
    );
}

fn blocks_of(pages: &[[u8; PAGE]], algorithm: Algorithm) -> Vec<Vec<u8>> {
    let (mut context, mut out) = (Context::new(algorithm), vec![0; ROOM]);
    let block = |page| {
        let len = compressed(&mut context, page, &mut out);
        out[..len].to_vec()
    };
    pages.iter().map(block).collect()
}

fn check(pages: &[[u8; PAGE]], algorithm: Algorithm, name: &str, mut blocks: &[u8]) {
    let mut context = Context::new(algorithm);
    let (mut page, mut own) = (vec![0; PAGE], vec![0; ROOM]);
    let (mut checked, mut identical, mut bad) = (0, 0, 0);
    let (mut theirs, mut ours) = (0, 0);
    for original in pages {
        let Some((len, rest)) = blocks.split_first_chunk() else {
            break;
        };
        let (block, rest) = rest.split_at(u32::from_le_bytes(*len) as usize);
        blocks = rest;
        let len = compressed(&mut context, original, &mut own);
        let own = &own[..len];
        checked += 1;
        identical += usize::from(own == block);
        (theirs, ours) = (theirs + block.len(), ours + own.len());
        // Others' frames have the number that ours leave out.
        let block = block.strip_prefix(&ZSTD_MAGIC).unwrap_or(block);
        bad += usize::from(!context.decompress(block, &mut page) || page != original);
    }
    println!(
        r#"{{"side":"check","codec":"{name}","pages":{checked},"differ":{bad},"identical":{identical},"bytes":{theirs},"own_bytes":{ours}}}"#
    );
    assert_eq!(bad, 0, "blocks that do not give their pages");
}

use alloc::vec::Vec;

use uzswap_acomp::{Algorithm, Context};

use super::*;
use crate::checksum;
use crate::sim::{ARENA_PAGES, BASE, SimAcomp, SimMachine, World};

/// A worker that is to load twelve pages, as they are, of which the third is damaged: three
/// pieces of four.
fn loading(world: &World<parking_lot::RawMutex>) -> Worker<SimMachine> {
    let mut worker = Worker::new(world.mm.config(), world.mm.machine());
    worker.begin_loads();
    for i in 0..12u8 {
        let bytes = [i + 1; PAGE_SIZE];
        let damage = u32::from(i == 2);
        worker.push_load(
            Vpn::new(BASE + u64::from(i)),
            Block {
                codec: Codec::Raw,
                bytes: &bytes,
                fingerprint: Some(fingerprint(&bytes) ^ damage),
            },
        );
    }
    worker
}

#[test]
fn each_piece_comes_as_far_as_it_can() {
    let world = World::new(0, ARENA_PAGES);
    let mut worker = loading(&world);
    let refused = Vpn::new(BASE + 5);
    worker.bring_loads(world.mm.machine(), true, |_, run, bytes, is_piece| {
        assert!(is_piece);
        for (page, bytes) in run.iter().zip(bytes.chunks(PAGE_SIZE)) {
            assert_eq!(u64::from(bytes[0]), page.number() - BASE + 1);
        }
        match run.contains(refused) {
            true => Done {
                pages: (refused.number() - run.start.number()) as u32,
                stop: Some(Stop::Present),
            },
            false => Done::all(run.pages() as u32),
        }
    });
    assert_eq!(worker.brought().collect::<Vec<_>>(), [0..2, 4..5, 8..12]);
    let at = |n: u64| worker.piece_of(Vpn::new(BASE + n)).unwrap();
    assert_eq!((at(3).loaded, at(3).stop), (2, None));
    assert_eq!((at(7).loaded, at(7).stop), (4, Some(Stop::Present)));
    assert!(worker.has_brought(Vpn::new(BASE + 8)) && !worker.has_brought(refused));
    assert_eq!(worker.raw_among(8..12).count(), 4);
}

#[test]
fn pieces_that_came_whole_are_one() {
    let world = World::new(0, ARENA_PAGES);
    let mut worker = loading(&world);
    worker.bring_loads(world.mm.machine(), true, |_, run, _, _| Done::all(run.pages() as u32));
    assert_eq!(worker.brought().collect::<Vec<_>>(), [0..2, 4..12]);
    worker.bring_loads(world.mm.machine(), false, |_, run, _, is_piece| {
        assert!(!is_piece);
        Done::all(run.pages() as u32)
    });
    assert!(worker.brought().eq(core::iter::once(0..2)));
}

/// Twenty pages of two codecs, filled ones and one as it is among them.
fn loading_all_kinds(worker: &mut Worker<SimMachine>) {
    worker.begin_loads();
    for i in 0..20u8 {
        let page = Vpn::new(BASE + u64::from(i));
        let algorithm = match i {
            3 => {
                worker.push_filled(page, 0x0404_0404);
                continue;
            }
            5 | 6 | 13 => Algorithm::Words,
            _ => Algorithm::Lz4 { acceleration: 1 },
        };
        if i == 17 {
            let block = Block {
                codec: Codec::Raw,
                bytes: &[18; PAGE_SIZE],
                fingerprint: None,
            };
            worker.push_load(page, block);
            continue;
        }
        let (contents, mut bytes) = ([i + 1; PAGE_SIZE], [0; 256]);
        let len = Context::new(algorithm).compress_page(&contents, &mut bytes).unwrap();
        let len = checksum::append(&mut bytes, len, &contents).unwrap();
        let block = Block {
            codec: algorithm.codec(),
            bytes: &bytes[..len],
            fingerprint: None,
        };
        worker.push_load(page, block);
    }
}

#[test]
#[cfg_attr(miri, ignore = "its codecs are C")]
fn neighbours_of_one_codec_are_one_request_up_to_the_first_that_is_damaged() {
    for faults_per_mille in [None, Some(0), Some(300)] {
        let machine = SimMachine::default();
        machine.make_acomp.replace(faults_per_mille.map(SimAcomp::all));
        let world = World::<parking_lot::RawMutex>::new(0, ARENA_PAGES);
        let mut worker = Worker::new(world.mm.config(), &machine);
        loading_all_kinds(&mut worker);
        assert_eq!(worker.decompress_loads(&machine), 20);
        for (i, page) in worker.io.bytes(20 * PAGE_SIZE).chunks(PAGE_SIZE).enumerate() {
            assert_eq!(page, [i as u8 + 1; PAGE_SIZE], "{i}");
        }
        // The last byte of the tenth: of its checksum.
        let end: usize = worker.loads[..10].iter().map(PageSource::bytes).sum();
        worker.blocks.bytes_mut(end)[end - 1] ^= 1;
        assert_eq!(worker.decompress_loads(&machine), 9);
        let counts = worker.accelerator_counts();
        assert!(
            counts.is_valid() && (counts.pages == 0) == faults_per_mille.is_none(),
            "{counts:?}"
        );
    }
}

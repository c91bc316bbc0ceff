use super::*;
use crate::descriptor::Opcode;
use crate::portal::{Portal, Submitted};
use crate::queue::STRIKES_MAX;
use crate::queue::test::work_queue;
use crate::topology::Mode;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec;

struct Accepting;

impl Portal for Accepting {
    fn submit(&self, _descriptor: &[u8; 64]) -> Submitted {
        Submitted::Accepted
    }
}

fn device(number: u32, package: u32, queues: u32) -> DeviceQueues {
    let queue = |i| Arc::new(Queue::new(work_queue(number, i, Mode::Shared), Box::new(Accepting)));
    DeviceQueues {
        number,
        package,
        queues: (0..queues).map(queue).collect(),
    }
}

const MAPPED: Layout = Layout {
    compress_queues: 1,
    distribute_compress: false,
    distribute_decompress: false,
};
const DISTRIBUTED: Layout = Layout {
    compress_queues: 1,
    distribute_compress: true,
    distribute_decompress: true,
};

/// Names of a core's queues in the order of their numbers.
fn names(table: &Table, core: usize, direction: Direction) -> Vec<String> {
    let mut names: Vec<_> = table
        .queues(core, direction)
        .map(|queue| queue.work_queue().id.to_string())
        .collect();
    names.sort();
    names
}

#[test]
fn the_last_queues_of_a_device_compress() {
    let table = Table::new(&[device(1, 0, 3)], &[0], MAPPED);
    let roles: Vec<_> = table.roles().iter().map(|&(_, role)| role).collect();
    assert_eq!(roles, [Role::Decompress, Role::Decompress, Role::Compress]);
    assert_eq!(names(&table, 0, Direction::Compress), ["wq1.2"]);
    assert_eq!(names(&table, 0, Direction::Decompress), ["wq1.0", "wq1.1"]);
}

#[test]
fn too_few_queues_are_generic() {
    for (queues, compress_queues) in [(1, 1), (2, 2), (2, 5), (2, 0)] {
        let layout = Layout {
            compress_queues,
            ..MAPPED
        };
        let table = Table::new(&[device(1, 0, queues)], &[0], layout);
        assert!(table.roles().iter().all(|&(_, role)| role == Role::Generic));
        for direction in [Direction::Compress, Direction::Decompress] {
            assert_eq!(names(&table, 0, direction).len(), queues as usize);
        }
    }
}

#[test]
fn cores_are_mapped_to_the_devices_of_their_package_in_blocks() {
    let devices = [device(7, 1, 2), device(1, 0, 2), device(3, 0, 2), device(5, 1, 2)];
    // Cores alternate between the packages, as they often do.
    let packages = [0, 1, 0, 1, 0, 1, 0, 1];
    let table = Table::new(&devices, &packages, MAPPED);
    let compress = |core| names(&table, core, Direction::Compress).concat();
    assert_eq!([0, 2, 4, 6].map(compress), ["wq1.1", "wq1.1", "wq3.1", "wq3.1"]);
    assert_eq!([1, 3, 5, 7].map(compress), ["wq5.1", "wq5.1", "wq7.1", "wq7.1"]);
    assert_eq!(
        names(&table, 8, Direction::Decompress),
        ["wq1.0"],
        "a core beyond the table wraps"
    );
}

#[test]
fn the_seeds_machine_has_28_logical_cores_a_device() {
    let devices: Vec<_> = (0..8).map(|i| device(i, i / 4, 2)).collect();
    let packages: Vec<u32> = (0..224).map(|core| core / 56 % 2).collect();
    let table = Table::new(&devices, &packages, MAPPED);
    let mut cores = [0; 8];
    for (core, &package) in packages.iter().enumerate() {
        let queue = table
            .queues(core, Direction::Decompress)
            .next()
            .unwrap()
            .work_queue()
            .id;
        assert_eq!(queue.device / 4, package);
        cores[queue.device as usize] += 1;
    }
    assert_eq!(cores, [28; 8]);
}

#[test]
fn distributed_jobs_go_to_all_devices_of_the_package_in_turn() {
    let devices = [device(1, 0, 2), device(3, 0, 2), device(5, 1, 2)];
    let table = Table::new(&devices, &[0, 0, 1], DISTRIBUTED);
    let first = || {
        table
            .queues(0, Direction::Compress)
            .next()
            .unwrap()
            .work_queue()
            .id
            .device
    };
    assert_eq!([first(), first(), first(), first()], [1, 3, 1, 3]);
    assert_eq!(names(&table, 2, Direction::Compress), ["wq5.1"]);
}

#[test]
fn a_package_without_a_device_uses_all() {
    let table = Table::new(&[device(1, 0, 2), device(3, 1, 2)], &[2], DISTRIBUTED);
    assert_eq!(names(&table, 0, Direction::Compress), ["wq1.1", "wq3.1"]);
}

#[test]
fn a_role_without_a_queue_that_can_is_filled_by_any_that_can() {
    let mut narrow = work_queue(1, 1, Mode::Shared);
    narrow.opcodes = [Opcode::DECOMPRESS].into_iter().collect();
    let mut one = device(1, 0, 1);
    one.queues.push(Arc::new(Queue::new(narrow, Box::new(Accepting))));
    let table = Table::new(&[one], &[0], MAPPED);
    assert_eq!(names(&table, 0, Direction::Compress), ["wq1.0"]);
}

#[test]
fn queues_that_are_suspect_or_gone_are_left_out() {
    let devices = [device(1, 0, 2), device(3, 0, 2)];
    let table = Table::new(&devices, &[0], DISTRIBUTED);
    (0..STRIKES_MAX).for_each(|_| devices[0].queues[1].strike());
    assert_eq!(names(&table, 0, Direction::Compress), ["wq3.1"]);
    assert!(!devices[1].queues[1].drain());
    assert_eq!(names(&table, 0, Direction::Compress), Vec::<String>::new());
    assert_eq!(names(&Table::default(), 3, Direction::Compress), Vec::<String>::new());
}

type TestCurrent = Current<parking_lot::RawMutex>;

#[test]
fn an_old_queue_is_let_go_when_nobody_holds_it() {
    let old = device(1, 0, 1);
    let queue = Arc::downgrade(&old.queues[0]);
    let current = TestCurrent::new(Table::new(&[old], &[0], MAPPED));
    let (mut busy, mut idle) = (Reader::default(), Reader::default());
    let held = busy
        .get(&current)
        .queues(0, Direction::Compress)
        .next()
        .unwrap()
        .clone();
    idle.get(&current);
    drop(current.replace(Table::new(&[device(3, 0, 1)], &[0], MAPPED)));
    assert_eq!(names(busy.get(&current), 0, Direction::Compress), ["wq3.0"]);
    drop(held);
    assert!(queue.upgrade().is_some(), "the idle reader holds the old table");
    idle.park();
    assert!(queue.upgrade().is_none());
    assert_eq!(names(idle.get(&current), 0, Direction::Compress), ["wq3.0"]);
}

#[test]
fn readers_see_whole_tables_while_they_are_replaced() {
    let current = TestCurrent::new(Table::new(&[device(1, 0, 2)], &[0], DISTRIBUTED));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut reader = Reader::default();
                for _ in 0..200 {
                    let table = reader.get(&current);
                    let [compress, decompress] =
                        [Direction::Compress, Direction::Decompress].map(|direction| names(table, 0, direction));
                    assert_eq!((compress.len(), decompress.len()), (1, 1));
                    assert_eq!(compress[0][..3], decompress[0][..3], "both of one device");
                }
            });
        }
        for number in 2..9 {
            let table = Table::new(&[device(number, 0, 2)], &[0], DISTRIBUTED);
            drop(current.replace(table));
        }
    });
    assert_eq!(names(&current.get(), 0, Direction::Compress), vec!["wq8.1"]);
}

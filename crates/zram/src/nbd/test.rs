//! A client that says whatever it likes, on the other end of a pair of sockets.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread;

use proptest::prelude::*;
use uzswap_mm::page::PAGE_SIZE;

use super::handshake::{Outcome, shake_hands};
use super::transmission::Transmission;
use super::wire::{Request, command, option};
use crate::counters::Counter;
use crate::device::Device;
use crate::store::Config;

const BYTES: u64 = 1 << 20;
const GREETING: &[u8] = b"NBDMAGICIHAVEOPT\0\x03";
const NO_ZEROES: [u8; 4] = [0, 0, 0, 3];

/// What the server says to a client that says `said`, and then nothing more.
fn shaken(said: &[u8]) -> (Vec<u8>, Option<Outcome>) {
    let (mut client, mut server) = UnixStream::pair().unwrap();
    thread::scope(|scope| {
        let outcome = scope.spawn(move || shake_hands(&mut server, BYTES).ok());
        // It may have hung up.
        let _ = client.write_all(said);
        client.shutdown(Shutdown::Write).unwrap();
        let mut heard = Vec::new();
        let _ = client.read_to_end(&mut heard);
        (heard, outcome.join().unwrap())
    })
}

fn option(option: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"IHAVEOPT".to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

/// The data of INFO and GO.
fn name(name: &str, wanted: &[u16]) -> Vec<u8> {
    let mut bytes = (name.len() as u32).to_be_bytes().to_vec();
    bytes.extend(name.as_bytes());
    bytes.extend((wanted.len() as u16).to_be_bytes());
    bytes.extend(wanted.iter().flat_map(|info| info.to_be_bytes()));
    bytes
}

/// The types of the answers to options, behind the greeting.
fn answers(heard: &[u8]) -> Vec<u32> {
    let (greeting, mut rest) = heard.split_at(GREETING.len());
    assert_eq!(greeting, GREETING);
    let mut types = Vec::new();
    while let Some((head, behind)) = rest.split_at_checked(20) {
        let word = |at: usize| u32::from_be_bytes(head[at..][..4].try_into().unwrap());
        assert_eq!(head[..8], [0, 3, 0xe8, 0x89, 4, 0x55, 0x65, 0xa9]);
        types.push(word(12));
        rest = &behind[word(16) as usize..];
    }
    assert!(rest.is_empty());
    types
}

#[test]
fn options_are_answered_until_requests_follow() {
    let said = [
        NO_ZEROES.to_vec(),
        option(8, &[]),
        option(option::LIST, &[]),
        option(option::LIST, &[1]),
        option(option::INFO, &name("", &[3, 0])),
        option(option::INFO, &name("other", &[])),
        option(option::INFO, &[0, 0, 0, 9]),
        option(option::GO, &name("", &[])),
    ];
    let (heard, outcome) = shaken(&said.concat());
    assert_eq!(outcome, Some(Outcome::Transmission));
    let error = 1 << 31;
    let expected = [error | 1, 2, 1, error | 3, 3, 3, 1, error | 6, error | 3, 3, 3, 1];
    assert_eq!(answers(&heard), expected);
    let size = BYTES.to_be_bytes();
    assert!(heard.windows(8).any(|window| window == size));
}

#[test]
fn the_old_way_to_ask_for_an_export_is_answered() {
    let (heard, outcome) = shaken(&[&NO_ZEROES[..], &option(option::EXPORT_NAME, &[])].concat());
    assert_eq!(outcome, Some(Outcome::Transmission));
    assert_eq!(heard.len(), GREETING.len() + 10);
    assert_eq!(heard[GREETING.len()..][..8], BYTES.to_be_bytes());
    let (heard, _) = shaken(&[&[0, 0, 0, 1][..], &option(option::EXPORT_NAME, &[])].concat());
    assert_eq!(heard.len(), GREETING.len() + 10 + 124);
    let (heard, outcome) = shaken(&[&NO_ZEROES[..], &option(option::EXPORT_NAME, b"other")].concat());
    assert_eq!((heard.len(), outcome), (GREETING.len(), Some(Outcome::Close)));
}

#[test]
fn who_breaks_the_handshake_is_left() {
    let mut long = option(option::LIST, &[]);
    long[12..16].fill(0xff);
    let mut other = option(option::LIST, &[]);
    other[0] = b'i';
    for said in [
        &[0, 0, 0, 4][..],
        &[&NO_ZEROES[..], &long].concat(),
        &[&NO_ZEROES[..], &other].concat(),
    ] {
        assert_eq!(shaken(said), (GREETING.to_vec(), Some(Outcome::Close)));
    }
    let (heard, outcome) = shaken(&[&NO_ZEROES[..], &option(option::ABORT, &[])].concat());
    assert_eq!((answers(&heard), outcome), (vec![1], Some(Outcome::Close)));
    assert_eq!(shaken(&[0, 0]), (GREETING.to_vec(), None));
}

fn device() -> Device {
    Device::new(&Config::new(BYTES)).unwrap()
}

/// What the server answers to a client that sends `said` and then leaves.
fn served(device: &Device, said: &[u8]) -> Vec<u8> {
    let (mut client, server) = UnixStream::pair().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || Transmission::new(server, device).serve());
        let mut sender = client.try_clone().unwrap();
        scope.spawn(move || {
            let _ = sender.write_all(said);
            let _ = sender.shutdown(Shutdown::Write);
        });
        let mut heard = Vec::new();
        let _ = client.read_to_end(&mut heard);
        heard
    })
}

fn request(command: u16, offset: u64, len: u32) -> Vec<u8> {
    with_flags(0, command, offset, len)
}

fn with_flags(flags: u16, command: u16, offset: u64, len: u32) -> Vec<u8> {
    let request = Request {
        flags,
        command,
        cookie: 0x0102_0304_0506_0708,
        offset,
        len,
    };
    request.to_bytes()
}

/// The errors of replies without data.
fn errors(heard: &[u8]) -> Vec<u32> {
    assert_eq!(heard.len() % 16, 0);
    let error = |reply: &[u8]| {
        assert_eq!(reply[..4], [0x67, 0x44, 0x66, 0x98]);
        assert_eq!(reply[8..], [1, 2, 3, 4, 5, 6, 7, 8]);
        u32::from_be_bytes(reply[4..8].try_into().unwrap())
    };
    heard.chunks(16).map(error).collect()
}

#[test]
fn what_was_written_is_read() {
    let device = device();
    let said = [
        request(command::WRITE, 100, 5),
        b"hello".to_vec(),
        request(command::FLUSH, 0, 0),
        request(command::READ, 98, 9),
        request(command::TRIM, 0, 4096),
        request(command::READ, 98, 9),
        with_flags(1, command::WRITE, BYTES - 1, 1),
        vec![9],
        with_flags(16 | 2, command::WRITE_ZEROES, 0, BYTES as u32),
        request(command::READ, BYTES - 2, 2),
        request(command::READ, 0, 0),
        request(command::DISC, 0, 0),
        request(command::READ, 0, 1),
    ];
    let heard = served(&device, &said.concat());
    let (first, rest) = heard.split_at(3 * 16 + 9);
    assert_eq!(errors(&first[..3 * 16]), [0; 3]);
    assert_eq!(first[3 * 16..], *b"\0\0hello\0\0");
    assert_eq!(errors(&rest[..32]), [0; 2]);
    assert_eq!(rest[32..41], [0; 9]);
    assert_eq!(errors(&rest[41..89]), [0; 3]);
    assert_eq!(rest[89..91], [0; 2]);
    assert_eq!(errors(&rest[91..]), [0]);
    assert_eq!(device.counters().get(Counter::NumWrites), 3);
}

#[test]
fn what_cannot_be_done_is_refused_and_the_client_goes_on() {
    let device = device();
    let write = [request(command::WRITE, BYTES - 1, 4000), vec![1; 4000]].concat();
    let said = [
        request(command::READ, BYTES, 1),
        request(command::READ, u64::MAX, 2),
        request(command::READ, 0, (32 << 20) + 1),
        write,
        request(command::TRIM, BYTES - 1, 2),
        request(command::WRITE_ZEROES, u64::MAX, u32::MAX),
        with_flags(4, command::READ, 0, 1),
        [with_flags(64, command::WRITE, 0, 1), vec![7]].concat(),
        request(command::FLUSH, 1, 0),
        request(5, 0, 1),
        request(u16::MAX, 0, 1),
        request(command::FLUSH, 0, 0),
    ];
    let heard = served(&device, &said.concat());
    assert_eq!(errors(&heard), [vec![22; 11], vec![0]].concat());
    assert_eq!(device.counters().get(Counter::InvalidIo), 11);
    assert_eq!(device.counters().get(Counter::OrigDataSize), 0);
}

#[test]
fn who_breaks_the_transmission_is_left() {
    let device = device();
    let mut magic = request(command::READ, 0, 1);
    magic[0] ^= 1;
    let long = request(command::WRITE, 0, (32 << 20) + 1);
    for said in [magic, long] {
        let said = [said, request(command::FLUSH, 0, 0)].concat();
        assert_eq!(served(&device, &said), []);
    }
}

#[test]
fn no_memory_is_told_as_no_space() {
    let mut config = Config::new(8 << 20);
    config.mem_limit = Some(1 << 20);
    let device = Device::new(&config).unwrap();
    let word = |n: u64| {
        n.wrapping_mul(n | 1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(31)
    };
    let noise: Vec<u8> = (0..2 << 17).flat_map(|n| word(n).to_le_bytes()).collect();
    let said = [
        request(command::WRITE, 4096, 2 << 20),
        noise,
        request(command::FLUSH, 0, 0),
    ];
    assert_eq!(errors(&served(&device, &said.concat())), [28, 0]);
    assert_eq!(device.counters().get(Counter::FailedWrites), 1);
    assert!(device.mem_used_total() <= 1 << 20);
}

/// It dies in the middle of its write: each page is what it was or what it was to be.
#[test]
fn a_client_that_dies_leaves_whole_pages() {
    let device = device();
    let mut worker = device.worker();
    device.write(&mut worker, 0, &vec![1; BYTES as usize]).unwrap();
    let mut said = request(command::WRITE, 100, 600_000);
    said.extend(vec![2; 400_001]);
    assert_eq!(served(&device, &said), []);
    let mut seen = vec![0; BYTES as usize];
    device.read(&mut worker, 0, &mut seen).unwrap();
    let first_page = [vec![1; 100], vec![2; PAGE_SIZE - 100]].concat();
    assert!(seen[..PAGE_SIZE] == first_page);
    let mut old_pages = 0;
    for page in seen[PAGE_SIZE..].chunks(PAGE_SIZE) {
        assert!(page.iter().all(|byte| *byte == page[0]));
        old_pages += usize::from(page[0] == 1);
        assert!(old_pages == 0 || page[0] == 1);
    }
    assert!((150..256).contains(&old_pages), "{old_pages}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn nothing_that_a_client_says_ends_the_server(
        noise in proptest::collection::vec(any::<u8>(), 0..300),
        requests in proptest::collection::vec(
            (any::<u8>(), 0..9u16, 0..BYTES + 9000, 0..9000u32), 0..20),
    ) {
        shaken(&noise);
        shaken(&[&NO_ZEROES[..], b"IHAVEOPT\0\0\0\x07", &noise].concat());
        let device = device();
        let flags = |byte: u8| if byte < 64 { u16::from(byte) & 0x13 } else { 0 };
        let mut said: Vec<u8> = requests.into_iter().flat_map(|(byte, command, offset, len)| {
            let payload = if command == command::WRITE { len as usize } else { 0 };
            [with_flags(flags(byte), command, offset, len), vec![byte; payload]].concat()
        }).collect();
        said.extend(noise);
        served(&device, &said);
    }
}

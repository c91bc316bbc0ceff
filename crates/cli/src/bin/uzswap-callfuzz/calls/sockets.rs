//! Sockets.

use linux_raw_sys::general as nr;
use linux_raw_sys::net;

use super::Call;
use super::bytes::vectors;
use crate::arena::Twin;
use crate::play::{Answer, Play, w};
use crate::things;

const DONTWAIT: usize = net::MSG_DONTWAIT as usize;
/// Bytes of an address, and of what a message carries beside its bytes.
const ADDRESS: usize = 110;
const CONTROL: usize = 64;
/// What comes before the descriptors that a message carries (`struct cmsghdr`).
const HEADER: usize = 16;
const SOL_SOCKET: usize = 1;

pub(super) const CALLS: &[Call] = &[
    ("sendto", 20, |p| {
        let (socket, len, flags) = (socket(p), p.length(), flags(p));
        let buffer = p.output(len);
        let [address, address_len] = if p.one_in(8) { address(p) } else { [w(0); 2] };
        p.call(nr::__NR_sendto, &[socket, buffer, w(len), flags, address, address_len]);
    }),
    ("recvfrom", 20, |p| {
        let (socket, len, flags) = (socket(p), p.length(), flags(p));
        let buffer = p.output(len);
        let [name, name_len] = if p.one_in(3) { name(p) } else { [w(0); 2] };
        p.call(nr::__NR_recvfrom, &[socket, buffer, w(len), flags, name, name_len]);
    }),
    ("sendmsg", 20, |p| {
        let (socket, flags) = (socket(p), flags(p));
        let (message, _) = message(p, true);
        let message = p.words(&message);
        p.call(nr::__NR_sendmsg, &[socket, message, flags]);
    }),
    ("recvmsg", 20, |p| {
        let (socket, flags) = (socket(p), flags(p));
        let (message, control) = message(p, false);
        let message = p.words(&message);
        p.call(nr::__NR_recvmsg, &[socket, message, flags]);
        p.after(move |p, _| close_received(p, &[control]));
    }),
    ("sendmmsg", 10, |p| {
        let (socket, flags) = (socket(p), flags(p));
        let (list, count, _) = messages(p, true);
        p.call(nr::__NR_sendmmsg, &[socket, list, count, flags]);
    }),
    ("recvmmsg", 10, |p| {
        let (socket, flags) = (socket(p), flags(p));
        let (list, count, controls) = messages(p, false);
        let time = if p.one_in(2) { p.time(60, 0) } else { w(0) };
        p.call(nr::__NR_recvmmsg, &[socket, list, count, flags, time]);
        p.after(move |p, _| close_received(p, &controls));
    }),
    ("connect", 3, |p| {
        let [address, len] = address(p);
        let fresh = things::fresh_sockets();
        p.call(nr::__NR_connect, &[fresh, address, len]);
        p.after(move |_, _| close_both(fresh));
    }),
    ("bind", 2, |p| {
        let (address, len) = fresh_address(p);
        let fresh = things::fresh_sockets();
        p.call(nr::__NR_bind, &[fresh, address, len]);
        p.after(move |_, _| close_both(fresh));
    }),
    ("accept4", 3, |p| accept(p, nr::__NR_accept4)),
    ("accept", 2, |p| accept(p, nr::__NR_accept)),
    ("getsockname", 4, |p| {
        let [name, len] = name(p);
        let socket = named(p);
        p.call(nr::__NR_getsockname, &[socket, name, len]);
    }),
    ("getpeername", 4, |p| {
        let [name, len] = name(p);
        let socket = named(p);
        p.call(nr::__NR_getpeername, &[socket, name, len]);
    }),
    ("getsockopt", 8, |p| {
        // SO_TYPE, SO_ERROR, SO_RCVBUF, SO_LINGER, SO_PEERCRED, SO_RCVTIMEO, SO_DOMAIN,
        // SO_PEERGROUPS, and one that there is not.
        let option = p.pick(&[3, 4, 8, 13, 17, 20, 39, 59, 999]);
        let (socket, len) = (socket(p), p.below(70));
        let (value, len) = (p.output(len), p.input(&(len as u32).to_le_bytes()));
        p.call(nr::__NR_getsockopt, &[socket, w(SOL_SOCKET), w(option), value, len]);
    }),
    ("setsockopt", 6, |p| {
        let socket = socket(p);
        // SO_TIMESTAMP, SO_KEEPALIVE, SO_LINGER, SO_RCVTIMEO, SO_SNDTIMEO, SO_PRIORITY.
        let option = p.pick(&[29, 9, 13, 20, 21, 12, 999]);
        let len = p.pick(&[0, 4, 4, 8, 16, 16, 30]);
        let mut bytes = vec![0; len];
        bytes.iter_mut().step_by(8).for_each(|byte| *byte = 1);
        let value = p.input(&bytes);
        p.call(nr::__NR_setsockopt, &[socket, w(SOL_SOCKET), w(option), value, w(len)]);
    }),
    ("attach_filter", 2, |p| {
        // Let all pass: `BPF_RET | BPF_K` with more than any length.
        let instruction = [6u8, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f];
        let count = 1 + p.below(100);
        let filter = p.input(&instruction.repeat(count));
        let program = p.words(&[w(count), filter]);
        let socket = p.things.datagrams[0].ends[0];
        p.call(nr::__NR_setsockopt, &[socket, w(SOL_SOCKET), w(26), program, w(16)]);
    }),
    ("socketpair", 2, |p| {
        made_pair(p, |p, pair| p.call(nr::__NR_socketpair, &[w(1), w(1), w(0), pair]))
    }),
    ("pipe2", 2, |p| {
        made_pair(p, |p, pair| p.call(nr::__NR_pipe2, &[pair, w(0)]))
    }),
    ("pipe", 2, |p| made_pair(p, |p, pair| p.call(nr::__NR_pipe, &[pair]))),
];

fn close_both(descriptors: Twin) -> Result<(), String> {
    descriptors
        .into_iter()
        .for_each(|descriptor| things::close(descriptor as isize));
    Ok(())
}

fn socket(p: &mut Play) -> Twin {
    let (pair, end) = (p.below(2), p.below(2));
    match p.below(30) {
        0 => p.things.files[0],
        1..15 => p.things.streams[pair].ends[end],
        _ => p.things.datagrams[pair].ends[end],
    }
}

/// One that has the same name for both, or none.
fn named(p: &mut Play) -> Twin {
    if p.one_in(2) { w(p.things.named) } else { socket(p) }
}

fn flags(p: &mut Play) -> Twin {
    let more = p.pick(&[0, 0, 0, 0, 0, net::MSG_PEEK, net::MSG_TRUNC, net::MSG_OOB]);
    w(DONTWAIT | net::MSG_NOSIGNAL as usize | more as usize)
}

/// Memory for an address, and its length.
fn name(p: &mut Play) -> [Twin; 2] {
    let len = p.below(ADDRESS + 20);
    [p.output(len), p.input(&(len as u32).to_le_bytes())]
}

/// The address of a listener, or of nobody.
fn address(p: &mut Play) -> [Twin; 2] {
    let name = p.pick(&["listener", "listener", "listener", "none"]);
    let [a, b] = ["a", "b"].map(|which| unix_address(&p.things.path(&format!("{name}.{which}"))));
    let len = a.len();
    let len = if p.one_in(10) { p.below(ADDRESS + 20) } else { len };
    [p.twin_input(&a, &b), w(len)]
}

/// One that nobody has: without a file.
fn fresh_address(p: &mut Play) -> (Twin, Twin) {
    let (process, number) = (p.things.process, p.random.next_u64());
    let [a, b] = ["a", "b"].map(|which| unix_address(&format!("\0{which}.{process}.{number:x}")));
    let len = a.len();
    (p.twin_input(&a, &b), w(len))
}

fn unix_address(path: &str) -> Vec<u8> {
    let mut address = vec![net::AF_UNIX as u8, 0];
    address.extend(path.bytes());
    address.push(0);
    address
}

fn accept(p: &mut Play, number: u32) {
    let [name, len] = if p.one_in(2) { name(p) } else { [w(0); 2] };
    p.call(number, &[p.things.listeners, name, len, w(0)]);
    p.answers(Answer::Descriptor);
}

/// Where descriptors are that were received.
type Control = Option<usize>;

/// A `struct msghdr`.
fn message(p: &mut Play, is_sent: bool) -> ([Twin; 7], Control) {
    let [address, address_len] = match p.below(8) {
        0 if is_sent => address(p),
        1 | 2 if !is_sent => {
            let len = p.below(ADDRESS);
            [p.output(len), w(len)]
        }
        _ => [w(0); 2],
    };
    let [list, count] = vectors(p);
    let mut place = None;
    let [control, control_len] = match p.below(4) {
        0 if is_sent => {
            let files = p.things.files[0];
            let of = |which: usize| carried(files[which]);
            let bytes = [of(0), of(1)];
            [p.twin_input(&bytes[0], &bytes[1]), w(bytes[0].len())]
        }
        0 | 1 if !is_sent => {
            // What is received is another descriptor in each.
            let (control, at) = p.loose_at(CONTROL);
            place = at;
            [control, w(p.below(CONTROL))]
        }
        _ => [w(0); 2],
    };
    ([address, address_len, list, count, control, control_len, w(0)], place)
}

/// What carries one descriptor (SCM_RIGHTS).
fn carried(descriptor: usize) -> Vec<u8> {
    let mut bytes = (HEADER + 4).to_le_bytes().to_vec();
    bytes.extend((SOL_SOCKET as u32).to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    bytes.extend((descriptor as u32).to_le_bytes());
    bytes.extend([0; 4]);
    bytes
}

fn close_received(p: &mut Play, places: &[Control]) -> Result<(), String> {
    let answers = places.iter().flatten().filter_map(|at| p.answered(*at, CONTROL));
    for bytes in answers.flatten() {
        let mut rest = bytes.as_slice();
        // What was not written is no length.
        while let Some(message) = rest
            .get(..word(rest, 0) as usize)
            .filter(|message| message.len() >= HEADER)
        {
            if [word(message, 8), word(message, 12)] == [SOL_SOCKET as u32, 1] {
                let descriptors = message[HEADER..].chunks_exact(4);
                descriptors.for_each(|descriptor| things::close(word(descriptor, 0) as isize));
            }
            rest = rest.get(message.len().next_multiple_of(8)..).unwrap_or(&[]);
        }
    }
    Ok(())
}

/// An array of `struct mmsghdr`.
fn messages(p: &mut Play, is_sent: bool) -> (Twin, Twin, Vec<Control>) {
    let count = p.below(5);
    let (mut words, mut controls) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let (message, control) = message(p, is_sent);
        words.extend(message);
        words.push(w(0));
        controls.push(control);
    }
    (p.words(&words), w(count), controls)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let rest = bytes.get(at..).unwrap_or(&[]);
    rest.first_chunk().map_or(0, |word| u32::from_le_bytes(*word))
}

/// A call that makes two descriptors.
fn made_pair(p: &mut Play, call: fn(&mut Play, Twin)) {
    let (pair, place) = p.loose_at(8);
    call(p, pair);
    p.after(move |p, results| {
        let place = place.filter(|_| results == [0; 2]);
        for bytes in place.and_then(|at| p.answered(at, 8)).iter().flatten() {
            [0, 4]
                .into_iter()
                .for_each(|at| things::close(word(bytes, at) as isize));
        }
        Ok(())
    });
}

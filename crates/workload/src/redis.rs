//! A client for Redis on this machine: fills a server, and reads from it with keys drawn as a
//! cache's are. (redis-benchmark draws them evenly only.)

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use crate::contents::Contents;
use crate::heap::{PAGE_SIZE, Rng};
use crate::latency::Histogram;
use crate::options::{Failure, Options, ParseError, bad_value};
use crate::report::Report;
use crate::zipf::Zipf;

/// Commands sent before their answers are read.
const PIPELINE: u64 = 256;

/// The options of `redis-load`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Load {
    port: u16,
    mib: u64,
    value_bytes: u64,
}

/// The options of `redis-get`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Get {
    port: u16,
    keys: u64,
    requests: u64,
    clients: u64,
    is_zipf: bool,
}

impl Load {
    /// Reads the arguments that follow `redis-load`.
    pub(crate) fn parse(args: &[String]) -> Result<Self, ParseError> {
        let (mut port, mut mib, mut value_bytes) = (None, None, 1024);
        let mut options = Options::new(args);
        while let Some(option) = options.next() {
            match option {
                "--port" => port = Some(options.number(option)?),
                "--mb" => mib = Some(options.number(option)?),
                "--value-bytes" => value_bytes = options.number(option)?,
                _ => return Err(ParseError::UnknownOption(option.to_owned())),
            }
        }
        if !(1..=PAGE_SIZE as u64).contains(&value_bytes) {
            return Err(bad_value(
                "--value-bytes",
                &value_bytes.to_string(),
                "must be from 1 to 4096",
            ));
        }
        Ok(Self {
            port: port.ok_or(ParseError::MissingOption("--port"))?,
            mib: mib.ok_or(ParseError::MissingOption("--mb"))?,
            value_bytes,
        })
    }
}

impl Get {
    /// Reads the arguments that follow `redis-get`.
    pub(crate) fn parse(args: &[String]) -> Result<Self, ParseError> {
        let (mut port, mut keys, mut requests, mut clients, mut is_zipf) = (None, None, 100_000, 8, false);
        let mut options = Options::new(args);
        while let Some(option) = options.next() {
            match option {
                "--port" => port = Some(options.number(option)?),
                "--keys" => keys = Some(options.number::<std::num::NonZeroU64>(option)?.get()),
                "--requests" => requests = options.number(option)?,
                "--clients" => clients = options.number::<std::num::NonZeroU64>(option)?.get(),
                "--keys-drawn" => is_zipf = is_zipfian(option, options.value(option)?)?,
                _ => return Err(ParseError::UnknownOption(option.to_owned())),
            }
        }
        Ok(Self {
            port: port.ok_or(ParseError::MissingOption("--port"))?,
            keys: keys.ok_or(ParseError::MissingOption("--keys"))?,
            requests,
            clients,
            is_zipf,
        })
    }
}

fn is_zipfian(option: &str, value: &str) -> Result<bool, ParseError> {
    match value {
        "zipf" => Ok(true),
        "uniform" => Ok(false),
        _ => Err(bad_value(option, value, "must be uniform or zipf")),
    }
}

struct Connection(BufReader<TcpStream>);

impl Connection {
    fn open(port: u16) -> Result<Self, Failure> {
        let stream = TcpStream::connect(("127.0.0.1", port)).and_then(|stream| {
            stream.set_nodelay(true)?;
            Ok(stream)
        });
        let stream = stream.map_err(|e| Failure(format!("--port {port}: {e}")))?;
        Ok(Self(BufReader::with_capacity(1 << 16, stream)))
    }

    fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.get_mut().write_all(bytes)
    }

    /// The bytes of the next answer, if it is a string; others have none. An error is one.
    fn answer(&mut self) -> std::io::Result<usize> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let Some(length) = line.strip_prefix('$') else {
            return match line.starts_with('+') {
                true => Ok(0),
                false => Err(std::io::Error::other(format!("the server says '{}'", line.trim_end()))),
            };
        };
        let Ok(length) = length.trim_end().parse::<usize>() else {
            return Ok(0);
        };
        let mut value = vec![0; length + 2];
        self.0.read_exact(&mut value)?;
        Ok(length)
    }
}

/// The names are those that redis-benchmark draws from.
fn key(number: u64) -> String {
    format!("key:{number:012}")
}

/// Fills the server; prints how many keys it made.
pub(crate) fn load(options: &Load) -> Result<u64, Failure> {
    let keys = (options.mib << 20) / options.value_bytes;
    let mut connection = Connection::open(options.port)?;
    let contents = Contents::heap();
    let failed = |e: std::io::Error| Failure(format!("--port {}: {e}", options.port));
    let (mut page, mut batch) = ([0; PAGE_SIZE], Vec::new());
    let mut sent = 0;
    for number in 0..keys {
        let at = number * options.value_bytes % PAGE_SIZE as u64;
        if at == 0 || number == 0 {
            contents.fill(1, number * options.value_bytes / PAGE_SIZE as u64, 0, &mut page);
        }
        let value = &page[..options.value_bytes as usize];
        let key = key(number);
        batch.extend_from_slice(
            format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${}\r\n", key.len(), value.len()).as_bytes(),
        );
        batch.extend_from_slice(value);
        batch.extend_from_slice(b"\r\n");
        page.rotate_left(options.value_bytes as usize);
        sent += 1;
        if sent == PIPELINE || number + 1 == keys {
            connection.send(&batch).map_err(failed)?;
            (0..sent)
                .try_for_each(|_| connection.answer().map(drop))
                .map_err(failed)?;
            batch.clear();
            sent = 0;
        }
    }
    println!("{{\"keys\":{keys}}}");
    Ok(0)
}

/// Reads from the server; prints a line as the passes of `usemem` do, and returns how many keys
/// were not there.
pub(crate) fn get(options: &Get) -> Result<u64, Failure> {
    let zipf = options.is_zipf.then(|| Zipf::new(options.keys));
    let began = Instant::now();
    let mut report = Report {
        pass: "get".to_owned(),
        ..Report::default()
    };
    std::thread::scope(|scope| {
        let clients = (0..options.clients).map(|client| {
            let zipf = zipf.as_ref();
            scope.spawn(move || one_client(options, zipf, client))
        });
        for client in clients.collect::<Vec<_>>() {
            let (touch_ns, missing) = client.join().expect("a client does not panic")?;
            report.touches += touch_ns.count();
            report.touch_ns.merge(&touch_ns);
            report.bad_pages += missing;
        }
        Ok(())
    })?;
    report.seconds = began.elapsed().as_secs_f64();
    println!("{}", report.to_json());
    Ok(report.bad_pages)
}

/// How long each request took, and how many keys were not there.
fn one_client(options: &Get, zipf: Option<&Zipf>, client: u64) -> Result<(Histogram, u64), Failure> {
    let failed = |e: std::io::Error| Failure(format!("--port {}: {e}", options.port));
    let mut connection = Connection::open(options.port)?;
    let mut rng = Rng::new(client + 1);
    let (mut histogram, mut missing) = (Histogram::default(), 0);
    for _ in 0..options.requests / options.clients {
        let number = match zipf {
            Some(zipf) => zipf.draw(&mut rng),
            None => rng.below(options.keys),
        };
        let key = key(number);
        let command = format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len());
        let began = Instant::now();
        connection.send(command.as_bytes()).map_err(failed)?;
        missing += u64::from(connection.answer().map_err(failed)? == 0);
        histogram.record(began.elapsed());
    }
    Ok((histogram, missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn reads_every_option() {
        let load = Load::parse(&args("--port 7 --mb 3 --value-bytes 512")).unwrap();
        assert_eq!((load.port, load.mib, load.value_bytes), (7, 3, 512));
        let get = Get::parse(&args("--port 7 --keys 3 --requests 5 --clients 2 --keys-drawn zipf")).unwrap();
        assert_eq!((get.keys, get.requests, get.clients, get.is_zipf), (3, 5, 2, true));
        assert!(Get::parse(&args("--port 7 --keys 3 --keys-drawn twice")).is_err());
        assert!(Load::parse(&args("--port 7 --mb 3 --value-bytes 5000")).is_err());
    }

    /// A server that knows one key.
    #[test]
    fn a_key_that_is_not_there_is_counted() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut seen = [0; 4096];
            let mut served = 0;
            while stream.read(&mut seen).is_ok_and(|n| n > 0) {
                let answer: &[u8] = if served % 2 == 0 {
                    b"$5\r\nhello\r\n"
                } else {
                    b"$-1\r\n"
                };
                stream.write_all(answer).unwrap();
                served += 1;
            }
        });
        let get = Get::parse(&args(&format!("--port {port} --keys 9 --requests 10 --clients 1"))).unwrap();
        assert_eq!(super::get(&get).unwrap(), 5);
        server.join().unwrap();
    }
}

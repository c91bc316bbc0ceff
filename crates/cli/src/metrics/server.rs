//! An HTTP server with one page.

use std::net::SocketAddr;

use tiny_http::{Header, Method, Request, Response, Server, StatusCode};

use super::text::CONTENT_TYPE;
use crate::Failure;
use crate::output::warn_line;

const PLAIN: &str = "text/plain; charset=utf-8";

/// Answer until stopped.
///
/// # Errors
/// The address cannot be had.
pub(super) fn serve(address: SocketAddr) -> Result<u8, Failure> {
    let failure = |e| Failure::new(format!("--listen {address}: {e}"));
    let server = Server::http(address).map_err(failure)?;
    // Port 0 is any that is free.
    warn_line!("uzswap: metrics are at http://{}/metrics", server.server_addr());
    loop {
        let request = server.recv().map_err(|e| failure(e.into()))?;
        // A client that does not read its answer keeps nobody else waiting.
        let answered = std::thread::Builder::new().spawn(|| answer(request));
        if let Err(e) = answered {
            warn_line!("uzswap: a request is not answered: {e}");
        }
    }
}

fn answer(request: Request) {
    let (status, of_type, text) = page(request.method(), request.url());
    let header = Header::from_bytes("Content-Type", of_type).expect("a header of ASCII");
    let response = Response::from_string(text)
        // Its length is known, however long it is.
        .with_chunked_threshold(usize::MAX)
        .with_status_code(StatusCode(status))
        .with_header(header);
    // Who has gone needs no answer.
    let _ = request.respond(response);
}

fn page(method: &Method, url: &str) -> (u16, &'static str, String) {
    let path = url.split('?').next().unwrap_or_default();
    match (method, path) {
        (Method::Get | Method::Head, "/metrics") => match super::now() {
            Ok(text) => (200, CONTENT_TYPE, text),
            Err(Failure(line)) => (500, PLAIN, format!("{line}\n")),
        },
        (_, "/metrics") => (405, PLAIN, "only GET and HEAD\n".to_owned()),
        _ => (404, PLAIN, "the metrics are at /metrics\n".to_owned()),
    }
}

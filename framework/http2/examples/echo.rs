//! A server that answers every request with what it got, or a line if that was nothing: something to try the crate on, with
//! `curl --http2-prior-knowledge` or h2spec. A thread for each connection.

use greenwave_http2::{Connection, Event, Header, Role, Settings, Stream};
use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = TcpListener::bind(address)?;
    println!("{}", listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        std::thread::spawn(move || {
            if let Err(error) = serve(stream) {
                eprintln!("{error}");
            }
        });
    }
    Ok(())
}

fn serve(mut socket: TcpStream) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let mut connection = Connection::new(Role::Server, Settings::new().streams(100));
    let (mut input, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    let mut bodies: HashMap<Stream, Vec<u8>> = HashMap::new();
    loop {
        while connection.has_output() {
            let output = connection.output(64 << 10);
            let len = output.len();
            socket.write_all(output)?;
            connection.sent(len);
        }
        let len = socket.read(&mut buffer)?;
        if len == 0 {
            return Ok(());
        }
        input.extend_from_slice(&buffer[..len]);
        let mut rest = &input[..];
        let over = loop {
            let (stream, end) = match connection.read(&mut rest) {
                Err(error) => break Some(error),
                Ok(None) => break None,
                Ok(Some(Event::Headers { stream, end, .. })) => {
                    bodies.insert(stream, Vec::new());
                    (stream, end)
                }
                Ok(Some(Event::Data { stream, bytes, end })) => {
                    let len = bytes.len();
                    if let Some(body) = bodies.get_mut(&stream) {
                        body.extend_from_slice(bytes);
                    }
                    connection.consumed(stream, len);
                    connection.release(len);
                    (stream, end)
                }
                Ok(Some(Event::Trailers { stream, .. })) => (stream, true),
                Ok(Some(Event::Reset { stream, .. })) => {
                    bodies.remove(&stream);
                    continue;
                }
                Ok(Some(_)) => continue,
            };
            if end && let Some(mut body) = bodies.remove(&stream) {
                if body.is_empty() {
                    body.extend_from_slice(b"nothing was sent\n");
                }
                connection.respond(stream, &[Header::Plain(b":status", b"200")], false);
                connection.send(stream, b"", body, true);
            }
        };
        let left = rest.len();
        input.drain(..input.len() - left);
        if let Some(error) = over {
            socket.write_all(connection.output(usize::MAX))?;
            return Err(std::io::Error::other(error));
        }
    }
}

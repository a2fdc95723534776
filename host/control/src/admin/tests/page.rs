//! The page's files and its stream.

use std::io::{BufRead as _, BufReader};

use super::*;

/// A connection that follows the host.
struct Viewer {
    stream: BufReader<TcpStream>,
}

impl Viewer {
    /// Asks to follow; none if it is refused, with what was said.
    fn follow(server: &AdminServer) -> Result<Viewer, String> {
        let (address, token) = (server.address(), server.token());
        let mut stream = TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let head = format!(
            "GET /v1/live HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut stream = BufReader::new(stream);
        let mut status = String::new();
        stream.read_line(&mut status).unwrap();
        match status.contains(" 200 ") {
            true => Ok(Viewer { stream }),
            false => Err(status),
        }
    }

    /// The next event of this name: its data.
    fn event(&mut self, name: &str) -> serde_json::Value {
        let name = format!("event: {name}");
        let mut is_meant = false;
        loop {
            let mut line = String::new();
            assert!(self.stream.read_line(&mut line).unwrap() > 0, "it ended");
            if line.starts_with("event: ") {
                is_meant = line.trim_end() == name;
            } else if let Some(data) = line.strip_prefix("data: ").filter(|_| is_meant) {
                return serde_json::from_str(data).unwrap();
            }
        }
    }
}

#[test]
fn the_page_is_for_everybody_who_means_this_server_and_may_run_its_own_files_only() {
    let Running { server, .. } = running();
    let address = server.address();
    let get = |path: &str, host: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let here = address.to_string();
    for path in ["/", "/page/main.js", "/page/style.css", "/page/icon.svg"] {
        let answer = get(path, &here);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
        let head = answer.split("\r\n\r\n").next().unwrap();
        assert!(
            head.contains("content-security-policy: default-src 'none'; script-src 'self';"),
            "{head}"
        );
        assert!(head.contains("x-content-type-options: nosniff"), "{head}");
        assert!(head.contains("referrer-policy: no-referrer"), "{head}");
        assert!(!answer.contains(server.token()));
        let elsewhere = get(path, "evil.example");
        assert!(elsewhere.starts_with("HTTP/1.1 403 "), "{elsewhere}");
    }
    for path in [
        "/page/",
        "/page/../v1/status",
        "/page/token",
        "/page/main.js/x",
    ] {
        let answer = get(path, &here);
        assert!(!answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
    }
}

#[test]
fn who_looks_is_told_what_changes_and_nobody_is_told_anything_twice() {
    let Running { server, host, .. } = running();
    let mut first = Viewer::follow(&server).unwrap();
    let state = first.event("state");
    assert_eq!(state["pipeline"], "support-bot");
    let mut second = Viewer::follow(&server).unwrap();
    assert_eq!(second.event("state"), state);
    host.records.store(7, Ordering::SeqCst);
    for viewer in [&mut first, &mut second] {
        assert_eq!(
            viewer.event("change"),
            serde_json::json!({"records": {"in": 7}})
        );
    }
    drop((first, second));
    // When nobody looks, nobody asks the host.
    let mut asked = host.asked.load(Ordering::SeqCst);
    let end = std::time::Instant::now() + Duration::from_secs(60);
    loop {
        std::thread::sleep(Duration::from_millis(2500));
        let now = host.asked.load(Ordering::SeqCst);
        if now == asked {
            break;
        }
        asked = now;
        assert!(std::time::Instant::now() < end, "it is asked for ever");
        host.records.store(now, Ordering::SeqCst);
    }
    assert_eq!(
        Viewer::follow(&server).unwrap().event("state")["pipeline"],
        "support-bot"
    );
}

#[test]
fn those_who_look_take_no_place_of_requests_and_there_are_so_many_of_them_only() {
    let Running { server, .. } = running();
    let viewers: Vec<_> = (0..16)
        .map(|_| {
            let mut viewer = Viewer::follow(&server).unwrap();
            viewer.event("state");
            viewer
        })
        .collect();
    let refused = Viewer::follow(&server).err().unwrap();
    assert!(refused.contains(" 503 "), "{refused}");
    let client = Client::at(server.address(), server.token());
    for _ in 0..40 {
        assert_eq!(client.status().unwrap().pipeline, "support-bot");
    }
    // Its end is theirs too.
    server.stop();
    for mut viewer in viewers {
        let mut rest = String::new();
        // Cut off in the middle of a body, as every connection is that is under way then.
        let _ = viewer.stream.read_to_string(&mut rest);
    }
}

/// Ranges of a class of characters as `format.js` writes it: `[\u{0}-\u{8}\u{ad}\p{Cs}]`.
fn class(source: &str) -> Vec<(u32, u32)> {
    let start = source.find("DISTURBING = /[").expect("the table");
    let class = &source[start + "DISTURBING = /[".len()..];
    let class = &class[..class.find("]/gu").expect("its end")];
    let class = class.strip_suffix("\\p{Cs}").expect("halves of characters");
    let number = |text: &str| {
        let digits = text.strip_prefix("\\u{")?.strip_suffix('}')?;
        u32::from_str_radix(digits, 16).ok()
    };
    let mut ranges = Vec::new();
    let mut rest = class;
    while !rest.is_empty() {
        let end = rest.find('}').expect("an end") + 1;
        let first = number(&rest[..end]).expect(rest);
        rest = &rest[end..];
        let mut last = first;
        if let Some(more) = rest.strip_prefix('-') {
            let end = more.find('}').expect("an end") + 1;
            last = number(&more[..end]).expect(more);
            rest = &more[end..];
        }
        ranges.push((first, last));
    }
    ranges
}

#[test]
fn the_page_hides_no_character_that_a_terminal_is_not_shown_and_keeps_the_joiners_of_scripts() {
    let ranges = class(include_str!("../../../page/format.js"));
    for character in char::MIN..=char::MAX {
        let on_page = ranges
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&u32::from(character)));
        let plain = tidegate_telemetry::is_plain(character.encode_utf8(&mut [0; 4]));
        let stays = plain || matches!(character, '\n' | '\t');
        assert_eq!(on_page, !stays, "{}", character.escape_unicode());
    }
    assert!(tidegate_telemetry::is_plain("\u{200c}\u{200d}"));
}

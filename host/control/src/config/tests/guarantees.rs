//! The guarantee that follows from the parts.

use tidegate_contract::Level;

use super::super::*;
use super::{content, parsed};

#[test]
fn the_guarantee_is_that_of_the_weakest_part() {
    let level = |content: &str| guarantee(&parsed(content).unwrap()).level;
    let files = "[pipeline]\nname = \"x\"\n[source.a]\ntype = \"file\"\npaths = [\"tickets.jsonl\"]\n\
         [sink.b]\ntype = \"file\"\npath = \"out/b\"\n";
    assert_eq!(level(files), Level::ExactlyOnce);
    let stdout = format!("{files}[sink.c]\ntype = \"stdout\"\n");
    assert_eq!(level(&stdout), Level::AtLeastOnce);
    let dead = format!("{files}[dead-letters]\ntype = \"stdout\"\n");
    assert_eq!(level(&dead), Level::AtLeastOnce);
    let stdin = format!("{stdout}[source.d]\ntype = \"stdin\"\n");
    assert_eq!(level(&stdin), Level::MayLose);
    assert_eq!(level(&content("full.toml")), Level::AtLeastOnce);
}

#[test]
fn a_sink_promises_no_more_than_the_sources_that_feed_it() {
    let pipeline = "[pipeline]\nname = \"x\"\n[source.a]\ntype = \"file\"\npaths = [\"tickets.jsonl\"]\n\
         [source.b]\ntype = \"kafka\"\nbrokers = [\"h:1\"]\ntopic = \"t\"\n[source.c]\ntype = \"stdin\"\n\
         [[stage]]\nname = \"s\"\noperator = \"redact.wasm\"\ninputs = [\"a\", \"b\"]\n\
         [sink.once]\ntype = \"file\"\npath = \"out/a\"\ninputs = [\"a\"]\n\
         [sink.again]\ntype = \"file\"\npath = \"out/b\"\ninputs = [\"s\"]\n\
         [sink.lost]\ntype = \"stdout\"\ninputs = [\"c\", \"s\"]\n";
    let said = guarantee(&parsed(pipeline).unwrap()).to_string();
    for line in [
        "sink once: exactly once: its length is part of every cut, and recovery takes away what lies beyond\n",
        "sink again: exactly once: its length is part of every cut, and recovery takes away what lies beyond\n",
        "source b: exactly once: its positions, and what waits of it, are part of every cut, as long as this process",
        "sink lost: may lose records on a crash: ",
        "dead letters: may lose records on a crash: ",
    ] {
        assert!(said.contains(line), "{line}\n{said}");
    }
}

//! What components say of themselves is bounded and can be shown, or they are refused by value and limit.

use tidegate_contract::{OperatorError, Slot};
use tidegate_operator::{ComponentSlot, Grants, SlotOptions};

use crate::support::*;

/// Where a text lies in the memory of the smallest operator, and its length.
fn span(at: u32, length: u32) -> String {
    let byte = |byte: &u8| format!("\\{byte:02x}");
    [at, length]
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .map(|b| byte(&b))
        .collect()
}

/// The smallest operator with parts of its text replaced, and 32 MiB of zeros after what it has.
fn pass_with(replacements: &[(&str, &str)]) -> Vec<u8> {
    let mut text = include_str!("../fixtures/released/0.1.0/pass.wat")
        .replace("\"memory\") 17)", "\"memory\") 512)");
    for (from, to) in replacements {
        assert!(text.contains(from), "{from}");
        text = text.replacen(from, to, 1);
    }
    wat::parse_str(text).unwrap()
}

#[track_caller]
fn refused(replacements: &[(&str, &str)], why: &str) {
    let bytes = pass_with(replacements);
    let error = ComponentSlot::new(&ENGINE, SlotOptions::new("s"), &bytes, "op.wasm").unwrap_err();
    let text = error.to_string();
    assert!(text.contains(why), "{text:?}");
    assert!(
        text.len() < 1000 && !text.contains(char::is_control),
        "{text:?}"
    );
    let described = ENGINE
        .compile(&bytes, "op.wasm")
        .unwrap()
        .describe(Grants::ALL);
    assert_eq!(described.unwrap_err().to_string(), text);
}

const NAME: &str = r"\40\00\00\00\04\00\00\00";
const VERSION: &str = r"\48\00\00\00\05\00\00\00";
const SCHEMA: &str = r"\50\00\00\00\02\00\00\00";
const READS: &str = r"\70\00\00\00\02\00\00\00\00\00\00\00\00\00\00\00";

#[test]
fn a_name_or_version_that_is_too_long_is_refused_by_value_and_limit() {
    let at = |length| span(8192, length);
    refused(
        &[(NAME, &at(200_000))],
        "its name has 200000 bytes, limit 128: \"\\u{0}",
    );
    refused(
        &[(VERSION, &at(129))],
        "its version has 129 bytes, limit 128",
    );
    refused(&[(NAME, &at(0))], "it has no name");
    refused(&[(VERSION, &at(0))], "it has no version");
}

#[test]
fn a_description_of_megabytes_is_refused_before_it_is_copied() {
    let at = |length| span(8192, length);
    let over = "describe: output: the answer exceeds the limit of 512 KiB";
    refused(&[(NAME, &at(10 << 20))], over);
    refused(&[(SCHEMA, &at(30 << 20))], over);
    refused(
        &[(SCHEMA, &at(300_000))],
        "its configuration schema has 293.0 KiB, limit 256 KiB",
    );
}

#[test]
fn a_list_of_thousands_is_refused_by_its_length() {
    let reads = &READS[..24];
    let lists = |reads: &str, outputs: String| reads.to_owned() + &outputs;
    refused(
        &[(READS, &lists(reads, span(8192, 300)))],
        "it has 300 named outputs, limit 256",
    );
    refused(&[(READS, &lists(reads, span(8192, 65_535)))], "describe: ");
    refused(
        &[(READS, &(span(8192, 17) + &span(0, 0)))],
        "it has 17 fields that it reads, limit 16",
    );
    refused(
        &[(READS, &lists(reads, span(8192, 1)))],
        "one of its outputs has no name",
    );
    // `key` and `value` lie at 112, and again after it.
    let twice = r#"(data (i32.const 8192) "\60\00\00\00\03\00\00\00\60\00\00\00\03\00\00\00") (data (i32.const 64)"#;
    refused(
        &[
            (READS, &lists(reads, span(8192, 2))),
            ("(data (i32.const 64)", twice),
        ],
        "its output \"key\" is there twice",
    );
}

#[test]
fn a_name_that_would_disturb_a_terminal_is_refused_and_shown_escaped() {
    refused(
        &[("\"pass\"", r#""\1b[2J""#)],
        "its name has characters that cannot be shown: \"\\u{1b}[2J\"",
    );
    refused(
        &[("\"1.0.0\"", r#""1.\0a.0""#)],
        "its version has characters that cannot be shown: \"1.\\n.0\"",
    );
    refused(
        &[("\"value\"", r#""va\0due""#)],
        "it reads \"va\\rue\"; there are key",
    );
}

#[test]
fn a_version_is_semver() {
    refused(
        &[("\"1.0.0\"", "\"1.0.x\"")],
        "its version \"1.0.x\" is not semver",
    );
    refused(
        &[("\"1.0.0\"", "\"01.00\"")],
        "its version \"01.00\" is not semver",
    );
    let bytes = pass_with(&[
        (VERSION, &span(8192, 12)),
        (
            "(data (i32.const 64)",
            "(data (i32.const 8192) \"1.0.0-rc.1+7\") (data (i32.const 64)",
        ),
    ]);
    assert_eq!(slot("pass", &bytes).version().version, "1.0.0-rc.1+7");
}

#[test]
fn names_of_imports_are_shown_escaped() {
    let text = r#"(component (import "url=<https://a/\u{202e}\u{1b}[2Jb>" (instance)))"#;
    let component = wat::parse_str(text).unwrap();
    let error =
        ComponentSlot::new(&ENGINE, SlotOptions::new("s"), &component, "op.wasm").unwrap_err();
    let text = error.to_string();
    assert!(!text.contains(['\u{202e}', '\u{1b}']), "{text:?}");
}

#[test]
fn names_in_a_backtrace_are_shown_escaped() {
    let text = include_str!("../fixtures/released/0.1.0/pass.wat").replace(
        "(func (export \"init\") (param i32 i32) (result i32)",
        "(func (@name \"\\1b[2J\\0aforged\") (export \"init\") (param i32 i32) (result i32) (unreachable)",
    );
    let bytes = wat::parse_str(text).unwrap();
    let error = ComponentSlot::new(&ENGINE, SlotOptions::new("s"), &bytes, "op.wasm").unwrap_err();
    assert!(matches!(error, OperatorError::Start { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("\\u{1b}[2J\\nforged"), "{text:?}");
    assert!(!text.contains('\x1b'), "{text:?}");
    assert!(slot("pass", PASS).version().name == "pass");
}

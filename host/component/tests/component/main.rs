//! What a component is made of, and what it says of itself.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use tidegate_component::{
    EncodeError, Names, Producer, digest, embed, encode, imports, module_imports, producers, sign,
    strip,
};

const WIT: &str = "package a:b@1.0.0;
interface log { write: func(line: string); }
interface run { run: func() -> u32; }
world noisy { import log; export run; }
world alone { export run; }";

/// A core module of `run`, which calls `log` if it is said so.
fn module(calls: bool) -> Vec<u8> {
    let import = "(import \"a:b/log@1.0.0\" \"write\" (func $write (param i32 i32)))";
    let (import, call) = match calls {
        true => (import, "(call $write (i32.const 0) (i32.const 0))"),
        false => ("", ""),
    };
    wat::parse_str(format!(
        "(module {import} (memory (export \"memory\") 1)
           (func $the_answer (export \"a:b/run@1.0.0#run\") (result i32) {call} (i32.const 42))
           (func (export \"cabi_realloc\") (param i32 i32 i32 i32) (result i32) (i32.const 0))
           (@custom \".debug_info\" \"where it was\")
           (@custom \"kept\" \"what is kept\"))"
    ))
    .unwrap()
}

fn component(calls: bool, world: &str) -> Result<Vec<u8>, EncodeError> {
    let mut module = module(calls);
    embed(&mut module, WIT, world)?;
    encode(&module)
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|found| found == text.as_bytes())
}

#[test]
fn a_component_imports_only_what_its_module_calls() {
    let calls = component(true, "noisy").unwrap();
    assert_eq!(imports(&calls).collect::<Vec<_>>(), ["a:b/log@1.0.0"]);
    let quiet = component(false, "noisy").unwrap();
    assert_eq!(imports(&quiet).count(), 0);
    assert!(module_imports(&module(true)).contains("a:b/log@1.0.0"));
}

#[test]
fn the_same_module_makes_the_same_component() {
    let (one, other) = (component(true, "noisy"), component(true, "noisy"));
    assert_eq!(digest(&one.unwrap()), digest(&other.unwrap()));
}

#[test]
fn what_its_world_does_not_have_is_refused_in_words() {
    let error = component(true, "alone").unwrap_err();
    assert!(matches!(error, EncodeError::DoesNotFit { .. }));
    assert!(error.to_string().contains("a:b/log@1.0.0"), "{error}");
    let error = component(false, "none").unwrap_err();
    assert!(matches!(error, EncodeError::World { .. }), "{error}");
}

#[test]
fn what_is_malformed_is_refused_in_words() {
    let whole = module(true);
    for bytes in [&b"no module"[..], &whole[..whole.len() / 2], &[]] {
        let error = encode(bytes).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("the core module is malformed: "),
            "{error}"
        );
        assert!(strip(bytes, Names::Keep).is_err() || bytes.is_empty());
        assert!(producers(bytes).is_err() || bytes.is_empty());
    }
}

#[test]
fn debug_information_goes_and_names_stay_if_they_are_wanted() {
    let component = component(true, "noisy").unwrap();
    assert!(has(&component, "where it was") && has(&component, "the_answer"));
    let named = strip(&component, Names::Keep).unwrap();
    assert!(
        !has(&named, "where it was") && has(&named, "the_answer") && has(&named, "what is kept")
    );
    let bare = strip(&component, Names::Drop).unwrap();
    assert!(!has(&bare, "the_answer") && has(&bare, "what is kept"));
    assert_eq!(imports(&bare).collect::<Vec<_>>(), ["a:b/log@1.0.0"]);
    let mut valid = wasmparser::Validator::new_with_features(wasmparser::WasmFeatures::all());
    valid.validate_all(&bare).unwrap();
    // There is nothing more to take.
    assert_eq!(strip(&bare, Names::Drop).unwrap(), bare);
}

#[test]
fn a_component_says_what_made_it() {
    let component = component(false, "noisy").unwrap();
    let added = [
        Producer::language("C"),
        Producer::processed_by("clang", "14.0.6"),
        Producer::sdk("tidegate-c", "0.1.0"),
    ];
    let signed = sign(&component, &added).unwrap();
    let said = producers(&signed).unwrap();
    for producer in added {
        assert!(said.contains(&producer), "{said:?}");
    }
    assert!(said.iter().any(|producer| producer.name == "wit-component"));
}

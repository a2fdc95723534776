//! What is refused before anything of it runs.

use tidegate_contract::OperatorError;
use tidegate_operator::{ComponentSlot, Grants, SlotOptions, Ungranted};

use crate::support::*;

fn refused(bytes: &[u8]) -> OperatorError {
    ComponentSlot::new(&ENGINE, SlotOptions::new("s"), bytes, "op.wasm").unwrap_err()
}

fn refused_text(text: &str) -> OperatorError {
    refused(&wat::parse_str(text).unwrap())
}

/// The smallest operator with this before everything else.
fn pass_with(import: &str) -> String {
    include_str!("../fixtures/released/0.1.0/pass.wat").replacen(
        "(component",
        &format!("(component {import}"),
        1,
    )
}

#[test]
fn what_is_not_webassembly_is_not_an_operator() {
    let error = refused(b"#!/bin/sh");
    assert_eq!(
        error.to_string(),
        "op.wasm is not an operator: it does not begin like WebAssembly"
    );
}

#[test]
fn a_component_that_lacks_the_export_is_named_with_what_it_lacks() {
    assert_eq!(
        refused_text("(component)").to_string(),
        "op.wasm is not an operator: it exports no operator; this host runs tidegate:operator/packed@1.0.0, \
         plain@1.0.0 and operator@0.1.0"
    );
    let other = include_str!("../fixtures/released/0.1.0/pass.wat")
        .replace("operator@0.1.0", "operator@2.0.0");
    assert_eq!(
        refused_text(&other).to_string(),
        "op.wasm is not an operator: it exports tidegate:operator/operator@2.0.0; this host runs \
         tidegate:operator/packed@1.0.0, plain@1.0.0 and operator@0.1.0"
    );
    let less = include_str!("../fixtures/released/0.1.0/pass.wat")
        .replace("(export \"init\" (func $init)))", ")")
        .replace("(export \"init\" (func $init))", "");
    assert!(
        refused_text(&less)
            .to_string()
            .ends_with("has no function init")
    );
}

#[test]
fn a_function_of_another_type_is_refused_at_the_start() {
    let other = include_str!("../fixtures/released/0.1.0/pass.wat")
        .replace("(param \"batch\" (list u8))", "(param \"batch\" string)");
    let error = refused_text(&other);
    assert!(matches!(error, OperatorError::Start { .. }), "{error}");
    assert!(
        error.to_string().contains("expected `list` found `string`"),
        "{error}"
    );
}

#[test]
fn bytes_that_do_not_compile_are_refused() {
    let mut bytes = PASS.to_vec();
    let middle = bytes.len() / 3;
    bytes.truncate(middle);
    assert!(matches!(refused(&bytes), OperatorError::Compile { .. }));
}

#[test]
fn a_core_module_that_is_cut_short_is_refused() {
    let module = guest("hostile");
    for part in 1..32 {
        let error = refused(&module[..module.len() * part / 32]);
        assert!(
            matches!(error, OperatorError::NotAnOperator { .. }),
            "{error}"
        );
    }
}

#[test]
fn an_operator_in_rust_imports_what_it_calls_and_where_its_panics_go() {
    let imports = |name: &str| {
        let options = SlotOptions {
            config: match name {
                "drop-abuse" => r#"{"words": ["x"]}"#,
                "bench-operator" => r#"{"mode": "filter"}"#,
                _ => "{}",
            }
            .into(),
            grants: Grants::ALL,
            ..SlotOptions::new("s")
        };
        let slot = ComponentSlot::new(&ENGINE, options, &guest(name), name);
        let mut imports = slot.unwrap().imports();
        imports.sort();
        imports
    };
    let stderr = [
        "wasi:cli/stderr@0.2.0",
        "wasi:io/error@0.2.0",
        "wasi:io/streams@0.2.0",
    ];
    assert_eq!(
        imports("drop-abuse"),
        Vec::<String>::new(),
        "panics = \"trap\""
    );
    assert_eq!(imports("bench-operator"), stderr);
    let log = ["tidegate:operator/log@1.0.0"].iter().chain(&stderr);
    assert!(imports("conformance-rust").iter().eq(log));
}

#[test]
fn what_is_imported_and_not_granted_is_named() {
    let with = |names: &[&str]| {
        let options = SlotOptions {
            grants: Grants::from_names(names.iter().copied()).unwrap(),
            ..SlotOptions::new("s")
        };
        ComponentSlot::new(&ENGINE, options, HOSTILE_OF_OLD, "op.wasm")
            .map_err(|error| error.to_string())
    };
    assert_eq!(
        with(&["log", "metrics"]).unwrap_err(),
        "op.wasm imports tidegate:operator/config@0.1.0, which the pipeline does not grant to this slot; with \
         ungranted = \"trap\" it starts, and a call of that is a trap"
    );
    assert!(
        with(&["log", "config"])
            .unwrap_err()
            .contains("tidegate:operator/metrics@0.1.0")
    );
    assert!(with(&["log", "config", "metrics"]).is_ok());
    for import in [
        "wasi:http/types@0.2.3",
        "wasi:nn/graph@0.2.0",
        "my:own/thing@1.0.0",
        "thing",
    ] {
        let error = refused_text(&pass_with(&format!("(import {import:?} (instance))")));
        let OperatorError::NotGranted { import: named, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(named, import);
    }
}

#[test]
fn an_import_of_another_shape_is_refused() {
    let import = "(import \"wasi:cli/environment@0.2.3\" (instance (export \"launch\" (func))))";
    let error = refused_text(&pass_with(import));
    assert!(
        error.to_string().contains("an import does not fit"),
        "{error}"
    );
}

#[test]
fn a_module_for_wasi_preview_1_is_one_like_others() {
    let import = |name: &str| {
        let module = format!(
            "(module (import \"wasi_snapshot_preview1\" {name:?} (func (param i32)))
               (memory (export \"memory\") 1))"
        );
        refused_text(&module).to_string()
    };
    let without_world = import("proc_exit");
    assert!(
        without_world.contains("it exports no operator"),
        "{without_world}"
    );
    let unknown = import("proc_enter");
    assert!(
        unknown.contains("cannot be made a component") && unknown.contains("proc_enter"),
        "{unknown}"
    );
}

#[test]
fn what_nothing_can_stand_in_for_is_refused_whatever_the_slot_says() {
    let options = || SlotOptions {
        grants: Grants {
            ungranted: Ungranted::Trap,
            ..Grants::default()
        },
        ..SlotOptions::new("s")
    };
    let with = |import: &str| {
        let bytes = wat::parse_str(pass_with(import)).unwrap();
        ComponentSlot::new(&ENGINE, options(), &bytes, "op.wasm")
    };
    let lent = with("(import \"wasi:nn/graph@0.2.0\" (instance (export \"load\" (func))))");
    assert_eq!(
        run(&mut *instance(&lent.unwrap()), &batch_of(["a"])).len(),
        1
    );
    for import in ["my:own/thing@1.0.0", "thing"] {
        let error = with(&format!("(import {import:?} (instance))")).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("op.wasm imports {import}, which the pipeline does not grant to this slot")
        );
    }
    for import in [
        "tidegate:operator/secrets@0.1.0",
        "tidegate:operator/log@3.1.0",
    ] {
        let error = with(&format!("(import {import:?} (instance))")).unwrap_err();
        assert!(
            error.to_string().contains(&format!("it imports {import}")),
            "{error}"
        );
    }
    let module = with("(import \"wasi:own/thing@0.2.0\" (core module))").unwrap_err();
    assert!(
        module
            .to_string()
            .contains("wasi:own/thing@0.2.0 is no interface"),
        "{module}"
    );
}

#[test]
fn a_module_without_a_world_is_not_an_operator() {
    let error = refused_text("(module (func (export \"process\")))");
    assert!(
        matches!(error, OperatorError::NotAnOperator { .. }),
        "{error}"
    );
}

#[test]
fn a_description_that_makes_no_sense_is_refused() {
    let text =
        include_str!("../fixtures/released/0.1.0/pass.wat").replace("\"value\")", "\"valve\")");
    let text = refused_text(&text).to_string();
    assert!(
        text.contains("it reads \"valve\"; there are key, value"),
        "{text}"
    );
}

#[test]
fn a_component_is_described_without_a_slot() {
    let component = ENGINE.compile(&guest("hostile"), "hostile").unwrap();
    let mut imports = component.imports().to_vec();
    imports.sort();
    assert_eq!(imports, ["tidegate:operator/log@1.0.0"]);
    let description = component.describe(Grants::ALL).unwrap();
    assert_eq!(description.version.name, "misbehave");
    assert_eq!(description.version.outputs, ["side", "other"]);
    assert_eq!(description.config_schema, "{}");
    assert!(component.describe(Grants::default()).is_err());
}

/// Two nested components, each with its own memory; a string goes from one to the other.
const NESTED: &str = r#"
  (component $reader
    (core module $code
      (memory (export "memory") 1)
      (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
      (func (export "take") (param i32 i32)
        (if (i32.ne (i32.load8_u (local.get 0)) (i32.const 104)) (then (unreachable)))))
    (core instance $code (instantiate $code))
    (func (export "take") (param "text" string)
      (canon lift (core func $code "take") (memory (core memory $code "memory"))
        (realloc (core func $code "realloc")))))
  (component $writer
    (import "take" (func $take (param "text" string)))
    (core module $libc (memory (export "memory") 1) (data (i32.const 16) "hello"))
    (core instance $libc (instantiate $libc))
    (core func $lowered (canon lower (func $take) (memory (core memory $libc "memory"))))
    (core module $code
      (import "host" "take" (func $take (param i32 i32)))
      (func $start (call $take (i32.const 16) (i32.const 5)))
      (start $start))
    (core instance (instantiate $code (with "host" (instance (export "take" (func $lowered)))))))
  (instance $reads (instantiate $reader))
  (instance (instantiate $writer (with "take" (func $reads "take"))))
"#;

#[test]
fn a_component_of_several_memories_runs() {
    let bytes = wat::parse_str(pass_with(NESTED)).unwrap();
    let nested = slot("nested", &bytes);
    assert_eq!(run(&mut *instance(&nested), &batch_of(["a", "b"])).len(), 2);
    // A module with two memories of its own, as some encoders make.
    let two =
        pass_with("(core module $two (memory 1) (memory 1)) (core instance (instantiate $two))");
    let two = slot("two", &wat::parse_str(two).unwrap());
    assert_eq!(run(&mut *instance(&two), &batch_of(["a", "b"])).len(), 2);
}

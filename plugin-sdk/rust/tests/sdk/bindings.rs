//! The committed bindings belong to the committed WIT package.

#[track_caller]
fn belong_together(wit: &str, bindings: &str) {
    let sum = wit.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let stated = bindings
        .lines()
        .find_map(|line| line.strip_prefix("// wit: "));
    assert_eq!(
        stated,
        Some(format!("{sum:016x}").as_str()),
        "the WIT file has changed: cargo run --manifest-path plugin-sdk/rust/bindgen/Cargo.toml"
    );
}

#[test]
fn the_bindings_are_those_of_the_wit_packages() {
    belong_together(
        include_str!("../../../../wit/tidegate.wit"),
        include_str!("../../src/bindings.rs"),
    );
    belong_together(
        include_str!("../../../../wit/tidegate.wit"),
        include_str!("../../src/tokens/bindings.rs"),
    );
    belong_together(
        include_str!("../../wit/stderr.wit"),
        include_str!("../../src/panics/bindings.rs"),
    );
}

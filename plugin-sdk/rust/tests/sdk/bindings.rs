//! The committed bindings belong to the committed WIT package.

#[test]
fn the_bindings_are_those_of_the_wit_package() {
    let wit = include_str!("../../../../wit/tidegate.wit");
    let sum = wit.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let stated = include_str!("../../src/bindings.rs")
        .lines()
        .find_map(|line| line.strip_prefix("// wit: "));
    assert_eq!(
        stated,
        Some(format!("{sum:016x}").as_str()),
        "wit/tidegate.wit has changed: cargo run --manifest-path plugin-sdk/rust/bindgen/Cargo.toml"
    );
}

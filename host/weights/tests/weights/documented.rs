//! The table of formats in the guide is that of the code.

use std::path::Path;

use tidegate_weights::{PackedFormat, StoredFormat};

#[test]
fn the_guide_lists_every_format_with_its_size_and_what_becomes_of_it() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/models.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let mut table = String::from(
        "| stored as | elements of a block | bits of an element | held as |\n|---|---|---|---|\n",
    );
    for stored in StoredFormat::ALL {
        let held = match stored {
            StoredFormat::Kept(_) => "the same",
            stored => stored.handed_on().name(),
        };
        let bits = 8.0 * stored.block_bytes() as f64 / stored.block() as f64;
        let (name, block) = (stored.gguf_name(), stored.block());
        table += &format!("| `{name}` | {block} | {bits} | {held} |\n");
    }
    assert!(
        guide.contains(&table),
        "docs/src/models.md must have:\n{table}"
    );
}

#[test]
fn the_guide_names_every_packing_of_other_tools() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/models.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    for format in PackedFormat::ALL {
        let row = format!("| `{}` | ", format.name());
        assert!(guide.contains(&row), "docs/src/models.md must have: {row}");
    }
}

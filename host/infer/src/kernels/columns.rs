//! The text of products of integers for GPUs: what a lane does with a group of 32 elements, written out for each row, quad and column.
//!
//! Sums go over the stored numbers of a group first, then times its factor, as in `shaders/matmul/matmul_software.wgsl`.

use super::source::shader;
use crate::matrix::StorageFormat;

/// Quads of a group.
const QUADS: u32 = 8;

/// Columns of a lane.
const COLUMNS: u32 = 4;

/// Components of a vector, by number.
const COMPONENTS: [&str; 4] = ["x", "y", "z", "w"];

/// The kernel's own file, for so many rows.
pub(super) fn source(stored: StorageFormat, rows: u32) -> String {
    let text = shader!("matmul/matmul_columns.wgsl").replace("$GROUP", &group(stored));
    bindings(stored).to_owned() + &for_each_row(rows, &text)
}

/// Every line with `$R` once for each row.
fn for_each_row(rows: u32, text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let times = if line.contains("$R") { rows } else { 1 };
        for row in 0..times {
            out += &line.replace("$R", &row.to_string());
            out.push('\n');
        }
    }
    out
}

/// What groups have beside their values.
fn bindings(stored: StorageFormat) -> &'static str {
    match stored {
        // Of four rows: (s, m), a byte each, and (d, dmin), f16 each.
        StorageFormat::Q4K => {
            "@group(0) @binding(5) var<storage, read> scales: array<vec2<u32>>;\n\
             @group(0) @binding(6) var<storage, read> supers: array<vec4<u32>>;\n"
        }
        // Of four rows: two i8 each, and d, f16; of each row the upper two bits of q.
        StorageFormat::Q6K => {
            "@group(0) @binding(5) var<storage, read> scales: array<vec2<u32>>;\n\
             @group(0) @binding(6) var<storage, read> supers: array<vec4<u32>>;\n\
             @group(0) @binding(7) var<storage, read> high: array<vec2<u32>>;\n"
        }
        // Scales of four rows: f16 each.
        _ => "@group(0) @binding(5) var<storage, read> scales: array<vec2<u32>>;\n",
    }
}

/// What a lane does with a group.
fn group(stored: StorageFormat) -> String {
    let chunks = stored.chunks() as u32;
    let mut lines = Vec::new();
    for column in 0..COLUMNS {
        for chunk in 0..chunks {
            lines.push(format!(
                "let c{column}_{chunk} = values[((at * 4u + {column}u) * {chunks}u + {chunk}u) * 8u + tile_lane];"
            ));
        }
        if stored == StorageFormat::Q6K {
            lines.push(format!(
                "let h{column} = high[(at * 4u + {column}u) * 8u + tile_lane];"
            ));
        }
    }
    lines.push("let scale = scales[at * 8u + tile_lane];".to_owned());
    if stored.block_bytes() > 0 {
        lines.push("let block = supers[at / 8u * 8u + tile_lane];".to_owned());
    }
    lines.push("var part_$R = vec4<f32>();".to_owned());
    if stored == StorageFormat::Q4K {
        lines.push("var total_$R = 0.0;".to_owned());
    }
    for quad in 0..QUADS {
        lines.push(format!(
            "let at_{quad} = min(g * 8u + {quad}u, params.width4 - 1u);"
        ));
        for column in 0..COLUMNS {
            let weights = weights(stored, column, quad);
            lines.push(format!("let w{column}_{quad} = {weights};"));
        }
        lines.push(format!("let x{quad}_$R = input[start_$R + at_{quad}];"));
        let dots: Vec<String> = (0..COLUMNS)
            .map(|column| format!("dot(w{column}_{quad}, x{quad}_$R)"))
            .collect();
        lines.push(format!("part_$R += vec4<f32>({});", dots.join(", ")));
        if stored == StorageFormat::Q4K {
            lines.push(format!(
                "total_$R += x{quad}_$R.x + x{quad}_$R.y + x{quad}_$R.z + x{quad}_$R.w;"
            ));
        }
        let halves = if stored == StorageFormat::Q6K { 2 } else { 1 };
        if (quad + 1) % (QUADS / halves) == 0 {
            let half = quad / (QUADS / halves);
            lines.push(format!("let factor_{half} = {};", factors(stored, half)));
            lines.push(format!("sums_$R += part_$R * factor_{half};"));
            lines.push("part_$R = vec4<f32>();".to_owned());
        }
    }
    if stored == StorageFormat::Q4K {
        lines.push(format!("let least = {};", minima()));
        lines.push("sums_$R -= least * total_$R;".to_owned());
    }
    lines.join("\n        ")
}

/// A quad of a column's weights as they are stored, `vec4<f32>`. Integers get there as the lowest bits of 2^23, without a
/// conversion, of which GPUs make a quarter of what they add.
fn weights(stored: StorageFormat, column: u32, quad: u32) -> String {
    let word = |chunk: u32, word: u32| {
        let component = COMPONENTS[word as usize % 4];
        format!("c{column}_{chunk}.{component}")
    };
    match stored {
        // Of floats, which have another kernel, too.
        StorageFormat::F32 | StorageFormat::F16 | StorageFormat::Bf16 | StorageFormat::Int8 => {
            let word = word(quad / 4, quad % 4);
            format!(
                "bitcast<vec4<f32>>(((vec4<u32>({word}) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u)) ^ \
                 vec4<u32>(0x4b000080u)) - vec4<f32>(8388736.0)"
            )
        }
        StorageFormat::Int4 => {
            let word = word(0, quad / 2);
            format!(
                "bitcast<vec4<f32>>(((vec4<u32>({word}) >> {}) & vec4<u32>(15u)) ^ vec4<u32>(0x4b000008u)) - \
                 vec4<f32>(8388616.0)",
                nibbles(quad)
            )
        }
        StorageFormat::Q4K => {
            let word = word(0, quad / 2);
            format!(
                "bitcast<vec4<f32>>(((vec4<u32>({word}) >> {}) & vec4<u32>(15u)) | vec4<u32>(0x4b000000u)) - \
                 vec4<f32>(8388608.0)",
                nibbles(quad)
            )
        }
        StorageFormat::Q6K => {
            let word = word(0, quad / 2);
            let high = COMPONENTS[quad as usize / 4];
            let shift = quad % 4 * 8;
            let upper: Vec<String> = (0..4).map(|e| format!("{}u", shift + 2 * e)).collect();
            format!(
                "bitcast<vec4<f32>>(((vec4<u32>({word}) >> {}) & vec4<u32>(15u)) | \
                 (((vec4<u32>(h{column}.{high}) >> vec4<u32>({})) & vec4<u32>(3u)) << vec4<u32>(4u)) | \
                 vec4<u32>(0x4b000000u)) - vec4<f32>(8388640.0)",
                nibbles(quad),
                upper.join(", ")
            )
        }
    }
}

/// How far the four bits of each element of a quad are from the lowest of their word.
fn nibbles(quad: u32) -> &'static str {
    if quad.is_multiple_of(2) {
        "vec4<u32>(0u, 4u, 8u, 12u)"
    } else {
        "vec4<u32>(16u, 20u, 24u, 28u)"
    }
}

/// What the sums of a group, or of half of one, are brought to scale with, of four columns that lie together.
fn factors(stored: StorageFormat, half: u32) -> String {
    match stored {
        StorageFormat::Q4K => format!(
            "vec4<f32>(vec4<u32>(scale.x, scale.x >> 16u, scale.y, scale.y >> 16u) & vec4<u32>(255u)) * {}",
            of_blocks("x")
        ),
        StorageFormat::Q6K => format!(
            "vec4<f32>(bitcast<vec4<i32>>(vec4<u32>(scale.x << 16u, scale.x, scale.y << 16u, scale.y) << vec4<u32>({}u)) \
             >> vec4<u32>(24u)) * {}",
            8 - 8 * half,
            of_blocks("x")
        ),
        _ => "vec4<f32>(unpack2x16float(scale.x), unpack2x16float(scale.y))".to_owned(),
    }
}

/// What is taken from each weight of a group of q4_K, of four columns that lie together.
fn minima() -> String {
    format!(
        "vec4<f32>(vec4<u32>(scale.x >> 8u, scale.x >> 24u, scale.y >> 8u, scale.y >> 24u) & vec4<u32>(255u)) * {}",
        of_blocks("y")
    )
}

fn of_blocks(component: &str) -> String {
    let of = |block: &str| format!("unpack2x16float(block.{block}).{component}");
    format!("vec4<f32>({})", COMPONENTS.map(of).join(", "))
}

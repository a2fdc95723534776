// What a lane of matmul_columns.wgsl reads of a unit: 32 elements of each of its four columns, stored as GGUF's q4_K, kinds apart.

const UNITS: u32 = 1u;       // of a group of 32 elements
const OCTETS: u32 = 4u;      // of elements in a unit
const FACTORS: u32 = 1u;     // parts of a unit with a factor of their own
const TOTALS: bool = true;   // whether something is taken from each weight

@group(0) @binding(5) var<storage, read> scales: array<vec2<u32>>; // (s, m) of four columns, a byte each
@group(0) @binding(6) var<storage, read> supers: array<vec4<u32>>; // (d, dmin) of four columns, f16 each

struct Unit {
    chunks: array<vec4<u32>, 4>, // of the four columns
    scales: vec2<u32>,
    supers: vec4<u32>,
}

struct Octet {
    low: vec4<f32>,
    high: vec4<f32>,
}

fn load_unit(tile: u32, u: u32, tile_lane: u32) -> Unit {
    let at = tile * params.groups + u;
    var unit: Unit;
    for (var i = 0u; i < 4u; i++) {
        unit.chunks[i] = values[(at * 4u + i) * 8u + tile_lane];
    }
    unit.scales = scales[at * 8u + tile_lane];
    unit.supers = supers[at / 8u * 8u + tile_lane];
    return unit;
}

// Each q times 2^-24: four bits are a subnormal f16, and two of these are widened at once.
fn octet_of(unit: ptr<function, Unit>, column: u32, octet: u32) -> Octet {
    let word = (*unit).chunks[column][octet];
    let next = word >> 8u;
    let a = unpack2x16float(word & 0x000f000fu);
    let b = unpack2x16float((word >> 4u) & 0x000f000fu);
    let c = unpack2x16float(next & 0x000f000fu);
    let d = unpack2x16float((next >> 4u) & 0x000f000fu);
    return Octet(vec4<f32>(a.x, b.x, c.x, d.x), vec4<f32>(a.y, b.y, c.y, d.y));
}

fn factors_of(unit: ptr<function, Unit>, half: u32) -> vec4<f32> {
    let words = vec4<u32>((*unit).scales.x, (*unit).scales.x >> 16u, (*unit).scales.y, (*unit).scales.y >> 16u);
    let d = (*unit).supers;
    let blocks = vec4<f32>(unpack2x16float(d.x).x, unpack2x16float(d.y).x, unpack2x16float(d.z).x, unpack2x16float(d.w).x);
    return vec4<f32>(words & vec4<u32>(255u)) * blocks * 16777216.0;
}

fn minima_of(unit: ptr<function, Unit>) -> vec4<f32> {
    let words = vec4<u32>((*unit).scales.x >> 8u, (*unit).scales.x >> 24u, (*unit).scales.y >> 8u, (*unit).scales.y >> 24u);
    let d = (*unit).supers;
    let blocks = vec4<f32>(unpack2x16float(d.x).y, unpack2x16float(d.y).y, unpack2x16float(d.z).y, unpack2x16float(d.w).y);
    return vec4<f32>(words & vec4<u32>(255u)) * blocks;
}

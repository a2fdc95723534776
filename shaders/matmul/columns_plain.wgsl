// The sums of matmul_columns.wgsl, or the input of matmul_cooperative.wgsl, as they are.

fn prepare_norms(first: u32, rows: u32, lane: u32) {
}

fn scaled(x: vec4<f32>, row: u32) -> vec4<f32> {
    return x;
}

// What matmul_cooperative.wgsl multiplies: matrices of 16 by 16 that the lanes of a subgroup hold together, in f16 with sums in f32.

alias Quad = vec4<f16>; // four elements as they are staged

alias Input = coop_mat16x16<f16, A>;
alias Weight = coop_mat16x16<f16, B>;
alias Sum = coop_mat16x16<f32, C>;

fn narrow(x: vec4<f32>) -> Quad {
    return Quad(x);
}

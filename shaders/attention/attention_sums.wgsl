    let sums_$E_$K = add_lanes(lane, array<vec4<f32>, 9>(a_$L_$K, b_$L_$K, c_$L_$K, d_$L_$K, a_$H_$K, b_$H_$K, c_$H_$K, d_$H_$K, total_$K));

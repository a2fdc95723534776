                // Octet $N. Beyond the width weights are zero: any element of the row will do.
                let at_$N = min((u * OCTETS + $Nu) * 2u, params.width4 - 1u);
                let next_$N = min((u * OCTETS + $Nu) * 2u + 1u, params.width4 - 1u);
                let w0_$N = octet_of(&unit, 0u, $Nu);
                let w1_$N = octet_of(&unit, 1u, $Nu);
                let w2_$N = octet_of(&unit, 2u, $Nu);
                let w3_$N = octet_of(&unit, 3u, $Nu);
                part_$R = multiply(part_$R, w0_$N, w1_$N, w2_$N, w3_$N, start_$R + at_$N, start_$R + next_$N);
                if (TOTALS) { total_$R += total(start_$R + at_$N, start_$R + next_$N); }
                if (FACTORS > 0u && ($Nu + 1u) % (OCTETS / max(FACTORS, 1u)) == 0u) {
                    let factors = factors_of(&unit, $Nu * FACTORS / OCTETS);
                    sums_$R = fma(part_$R, factors, sums_$R);
                    part_$R = vec4<f32>();
                }

                // Quads 4 * $P to 4 * $P + 3 of the keys.
                let key_$P_$F = four_at(at_$F, own_$P);
                sum_$F_$K += dot(key_$P_$F.a, a_$P_$K);
                sum_$F_$K += dot(key_$P_$F.b, b_$P_$K);
                sum_$F_$K += dot(key_$P_$F.c, c_$P_$K);
                sum_$F_$K += dot(key_$P_$F.d, d_$P_$K);

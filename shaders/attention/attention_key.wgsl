                // Pair $P of a key.
                let key_$P = pair_at(at, own_$P);
                sum_$K += dot(key_$P.a, a_$P_$K);
                sum_$K += dot(key_$P.b, b_$P_$K);

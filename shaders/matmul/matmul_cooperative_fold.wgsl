                coopStoreT(sum_$N_$C, &sums[held + $Cu * 4u], COLUMNS / 4u);
                workgroupBarrier();
                for (var s = 0u; s < SLICES; s++) {
                    if (lane + $Qu * LANES < HELD * COLUMNS / 4u) { whole_$N_$Q += sums[s * (HELD * COLUMNS / 4u) + lane + $Qu * LANES]; }
                }
                workgroupBarrier();

        // Each lane reads a quad of a query, or two, and tells the others. Needs subgroups of 8 or more.
        let low_$K = query_at(query_$K, chunk + lane);
        let high_$K = query_at(query_$K, chunk + 8u + lane);
        let a_$P_$K = subgroupBroadcast(select(low_$K, high_$K, $Pu >= 4u), (2u * $Pu) % 8u);
        let b_$P_$K = subgroupBroadcast(select(low_$K, high_$K, $Pu >= 4u), (2u * $Pu + 1u) % 8u);

        // Each lane reads a quad of a query, or two, and tells the others. Needs subgroups of 8 or more.
        let low_$K = query_at(query_$K, chunk + lane);
        let high_$K = query_at(query_$K, chunk + 8u + lane);
        let a_$P_$K = own_of_lane(subgroupBroadcast(select(low_$K, high_$K, $Pu >= 2u), (4u * $Pu) % 8u), lane);
        let b_$P_$K = own_of_lane(subgroupBroadcast(select(low_$K, high_$K, $Pu >= 2u), (4u * $Pu + 1u) % 8u), lane);
        let c_$P_$K = own_of_lane(subgroupBroadcast(select(low_$K, high_$K, $Pu >= 2u), (4u * $Pu + 2u) % 8u), lane);
        let d_$P_$K = own_of_lane(subgroupBroadcast(select(low_$K, high_$K, $Pu >= 2u), (4u * $Pu + 3u) % 8u), lane);

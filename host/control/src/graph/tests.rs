//! Graphs of known shapes.

use super::layout::{Layout, layout};

/// What holds of every layout.
fn laid(nodes: usize, edges: &[(usize, usize)], last: &[usize]) -> Layout {
    let laid = layout(nodes, edges, last);
    assert_eq!(laid, layout(nodes, edges, last), "not the same again");
    assert_eq!(laid.nodes.len(), nodes);
    for ((from, to), through) in edges.iter().zip(&laid.edges) {
        let (from, to) = (laid.nodes[*from].0, laid.nodes[*to].0);
        assert!(from < to);
        assert_eq!(through.len() as u32, to - from - 1);
    }
    // Nodes and what passes between them: of each layer no two are nearer than 1.
    let mut layers = vec![Vec::new(); nodes];
    for (layer, place) in &laid.nodes {
        layers[*layer as usize].push(*place);
    }
    for ((from, _), through) in edges.iter().zip(&laid.edges) {
        let first = laid.nodes[*from].0 as usize + 1;
        for (step, place) in through.iter().enumerate() {
            layers[first + step].push(*place);
        }
    }
    for mut places in layers {
        places.sort_by(f32::total_cmp);
        assert!(places.iter().all(|place| *place >= 0.0));
        let near = places.windows(2).find(|pair| pair[1] - pair[0] < 0.999);
        assert_eq!(near, None, "{places:?}");
    }
    laid
}

#[test]
fn a_line_is_straight() {
    let laid = laid(4, &[(0, 1), (1, 2), (2, 3)], &[3]);
    assert_eq!(laid.nodes, [(0, 0.0), (1, 0.0), (2, 0.0), (3, 0.0)]);
}

#[test]
fn both_sides_of_a_diamond_stand_around_its_ends() {
    let laid = laid(4, &[(0, 1), (0, 2), (1, 3), (2, 3)], &[3]);
    let place = |node: usize| laid.nodes[node].1;
    assert_eq!(place(0), place(3));
    assert_eq!((place(1) + place(2)) / 2.0, place(0));
}

#[test]
fn a_fan_out_stands_around_its_middle() {
    let edges: Vec<_> = (1..8).map(|sink| (0, sink)).collect();
    let laid = laid(8, &edges, &[1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(laid.nodes[0], (0, 3.0));
}

#[test]
fn a_long_edge_goes_round_what_stands_between_its_ends() {
    let laid = laid(4, &[(0, 1), (1, 2), (2, 3), (0, 3)], &[3]);
    let passes = &laid.edges[3];
    assert_eq!(passes.len(), 2);
    assert!((passes[0] - laid.nodes[1].1).abs() >= 0.999);
    assert!((passes[1] - laid.nodes[2].1).abs() >= 0.999);
}

#[test]
fn crossed_ways_are_uncrossed() {
    // Two sources, whose stages are named the other way round.
    let laid = laid(6, &[(0, 3), (1, 2), (3, 5), (2, 4)], &[4, 5]);
    let above = |one: usize, other: usize| laid.nodes[one].1 < laid.nodes[other].1;
    assert_eq!(above(0, 1), above(3, 2));
    assert_eq!(above(3, 2), above(5, 4));
}

#[test]
fn sinks_and_dead_letters_stand_in_the_last_layer_and_alone_too() {
    let laid = laid(5, &[(0, 1), (1, 2), (0, 3)], &[2, 3, 4]);
    let layers: Vec<u32> = laid.nodes.iter().map(|node| node.0).collect();
    assert_eq!(layers, [0, 1, 2, 2, 2]);
}

#[test]
fn sixty_stages_whatever_their_ways() {
    // Each takes what some of those before it give, by a rule without a pattern to the eye.
    let mut edges = Vec::new();
    for stage in 1..60_usize {
        for step in 1..=3 {
            let from = stage * 7 * step % (stage + step);
            if from < stage && !edges.contains(&(from, stage)) {
                edges.push((from, stage));
            }
        }
    }
    laid(62, &edges, &[60, 61]);
}

#[test]
fn a_circle_which_no_pipeline_has_ends_too() {
    let laid = layout(2, &[(0, 1), (1, 0)], &[]);
    assert_eq!(laid.nodes.len(), 2);
}

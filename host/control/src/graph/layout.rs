//! Where the parts of a graph stand: layers by the longest way, then sweeps that move each part towards those it is
//! joined to (Sugiyama, Tagawa and Toda 1981). The same graph always comes out the same.

/// Sweeps over all layers, forth and back. More of them hardly change a graph of a hundred parts.
const SWEEPS: usize = 8;

/// A graph with places.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Layout {
    /// Layer and place of each node.
    pub(super) nodes: Vec<(u32, f32)>,
    /// Of each edge the places where it passes the layers between its ends.
    pub(super) edges: Vec<Vec<f32>>,
}

/// Lays out a graph without circles, whose edges are pairs of nodes. The nodes of `last` stand in the last layer.
pub(super) fn layout(nodes: usize, edges: &[(usize, usize)], last: &[usize]) -> Layout {
    let layers = layers(nodes, edges, last);
    let depth = layers.iter().max().map_or(0, |last| last + 1);
    let mut points = Points::new(&layers, depth);
    let chains: Vec<Vec<usize>> = edges
        .iter()
        .map(|(from, to)| points.join(*from, *to, &layers))
        .collect();
    points.sweep();
    points.spread();
    Layout {
        nodes: (0..nodes)
            .map(|node| (layers[node] as u32, points.place[node]))
            .collect(),
        edges: chains
            .into_iter()
            .map(|chain| chain.into_iter().map(|point| points.place[point]).collect())
            .collect(),
    }
}

/// The layer of each node: one more than the greatest of those before it.
fn layers(nodes: usize, edges: &[(usize, usize)], last: &[usize]) -> Vec<usize> {
    let mut layers = vec![0; nodes];
    // Without circles a way has fewer steps than there are nodes, so this ends; with one, after so many rounds.
    for _ in 0..nodes {
        let mut moved = false;
        for (from, to) in edges {
            if layers[*to] <= layers[*from] {
                layers[*to] = layers[*from] + 1;
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    let end = layers.iter().copied().max().unwrap_or(0);
    for node in last {
        layers[*node] = end;
    }
    layers
}

/// The nodes, and a point for each layer that an edge passes: all edges lead from one layer to the next then.
struct Points {
    /// Points of each layer, in order.
    order: Vec<Vec<usize>>,
    /// Those of the layer before that a point is joined to.
    before: Vec<Vec<usize>>,
    /// Those of the layer behind.
    behind: Vec<Vec<usize>>,
    place: Vec<f32>,
}

impl Points {
    fn new(layers: &[usize], depth: usize) -> Points {
        let mut order = vec![Vec::new(); depth];
        for (node, layer) in layers.iter().enumerate() {
            order[*layer].push(node);
        }
        Points {
            order,
            before: vec![Vec::new(); layers.len()],
            behind: vec![Vec::new(); layers.len()],
            place: vec![0.0; layers.len()],
        }
    }

    /// Joins two nodes by points in the layers between them; gives these.
    fn join(&mut self, from: usize, to: usize, layers: &[usize]) -> Vec<usize> {
        let mut chain = Vec::new();
        let mut at = from;
        for layer in layers[from] + 1..layers[to] {
            let point = self.place.len();
            self.place.push(0.0);
            self.before.push(Vec::new());
            self.behind.push(Vec::new());
            self.order[layer].push(point);
            self.link(at, point);
            chain.push(point);
            at = point;
        }
        self.link(at, to);
        chain
    }

    fn link(&mut self, from: usize, to: usize) {
        self.behind[from].push(to);
        self.before[to].push(from);
    }

    /// Puts each layer in the order that crosses least of all that the sweeps come by.
    fn sweep(&mut self) {
        let mut best = (self.crossings(), self.order.clone());
        for _ in 0..SWEEPS {
            for layer in 1..self.order.len() {
                self.arrange(layer, layer - 1, true);
            }
            for layer in (0..self.order.len().saturating_sub(1)).rev() {
                self.arrange(layer, layer + 1, false);
            }
            let crossings = self.crossings();
            if crossings < best.0 {
                best = (crossings, self.order.clone());
            }
        }
        self.order = best.1;
    }

    /// Orders a layer by the mean place of what each point is joined to in its neighbour.
    fn arrange(&mut self, layer: usize, neighbour: usize, is_before: bool) {
        let rank = self.ranks(neighbour);
        let joined = match is_before {
            true => &self.before,
            false => &self.behind,
        };
        let own = self.order[layer].iter().enumerate();
        let mut keyed: Vec<(f32, usize)> = own
            .map(|(at, point)| {
                let ranks = joined[*point].iter().map(|other| rank[*other] as f32);
                (mean(ranks).unwrap_or(at as f32), *point)
            })
            .collect();
        // Stable: what is equal stays as it stands.
        keyed.sort_by(|one, other| one.0.total_cmp(&other.0));
        self.order[layer] = keyed.into_iter().map(|(_, point)| point).collect();
    }

    fn ranks(&self, layer: usize) -> Vec<usize> {
        let mut rank = vec![0; self.place.len()];
        for (at, point) in self.order[layer].iter().enumerate() {
            rank[*point] = at;
        }
        rank
    }

    fn crossings(&self) -> usize {
        let mut crossings = 0;
        for layer in 1..self.order.len() {
            let rank = self.ranks(layer - 1);
            let mut lines = Vec::new();
            for (at, point) in self.order[layer].iter().enumerate() {
                lines.extend(self.before[*point].iter().map(|from| (rank[*from], at)));
            }
            for (index, one) in lines.iter().enumerate() {
                crossings += lines[..index]
                    .iter()
                    .filter(|other| {
                        (one.0 < other.0 && one.1 > other.1) || (one.0 > other.0 && one.1 < other.1)
                    })
                    .count();
            }
        }
        crossings
    }

    /// Gives each point a place: in the order of its layer, at least 1 from its neighbours, and as near as that allows to
    /// the mean of those it is joined to.
    fn spread(&mut self) {
        for layer in &self.order {
            let middle = (layer.len() as f32 - 1.0) / 2.0;
            for (at, point) in layer.iter().enumerate() {
                self.place[*point] = at as f32 - middle;
            }
        }
        for sweep in 0..SWEEPS * 2 {
            let forth = sweep % 2 == 0;
            for step in 0..self.order.len() {
                let layer = match forth {
                    true => step,
                    false => self.order.len() - 1 - step,
                };
                self.settle(layer, forth);
            }
        }
        let least = self.place.iter().copied().fold(f32::INFINITY, f32::min);
        for place in &mut self.place {
            *place -= least;
        }
    }

    /// Moves the points of a layer towards what they are joined to on one side.
    fn settle(&mut self, layer: usize, forth: bool) {
        let joined = if forth { &self.before } else { &self.behind };
        let layer = &self.order[layer];
        let wanted: Vec<f32> = layer
            .iter()
            .map(|point| {
                let places = joined[*point].iter().map(|other| self.place[*other]);
                mean(places).unwrap_or(self.place[*point])
            })
            .collect();
        for (point, place) in layer.iter().zip(apart(&wanted)) {
            self.place[*point] = place;
        }
    }
}

/// The places nearest to those wanted (by least squares) that keep their order and stand at least 1 apart: groups that
/// would overlap become one, around their mean.
fn apart(wanted: &[f32]) -> Vec<f32> {
    // Of each group the sum of where its first would stand, and its number.
    let mut groups: Vec<(f32, usize)> = Vec::new();
    for wanted in wanted {
        let mut group = (*wanted, 1);
        while let Some((sum, count)) = groups.pop() {
            let mean = sum / count as f32;
            if mean + count as f32 <= group.0 / group.1 as f32 {
                groups.push((sum, count));
                break;
            }
            // The first of the latter would stand `count` further to the left.
            group = (sum + group.0 - (count * group.1) as f32, count + group.1);
        }
        groups.push(group);
    }
    let mut places = Vec::with_capacity(wanted.len());
    for (sum, count) in groups {
        places.extend((0..count).map(|at| sum / count as f32 + at as f32));
    }
    places
}

fn mean(values: impl Iterator<Item = f32>) -> Option<f32> {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value;
        count += 1.0;
    }
    (count > 0.0).then(|| sum / count)
}

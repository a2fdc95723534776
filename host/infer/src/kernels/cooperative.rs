//! The text of products by cooperative matrices: how a tile is cut among subgroups, and what each of their lanes does, written out.

use super::columns::for_each;
use super::source::{for_each_lane, shader};
use crate::matrix::StorageFormat;

/// Rows and columns of a matrix.
const SIDE: u32 = 16;

/// Quads of sums that workgroup memory holds where it ends norms: 32 strands of 16 rows, and one more for each strand.
const OF_NORMS: u32 = 32 * 17;

/// Rows and columns of a workgroup, and how they are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cut {
    /// Rows, a multiple of 16.
    pub rows: u32,
    /// Columns, a multiple of 16.
    pub columns: u32,
    /// Slices of the width, one for each subgroup. Of one slice four subgroups have a quadrant each.
    pub slices: u32,
    /// Lanes of a subgroup, at most.
    pub lanes: u32,
}

impl Cut {
    /// For weights of so few columns and rows that the width has to be shared: 16 rows, which is what is added up at once, at a time.
    fn shares_the_width(self) -> bool {
        self.slices > 1
    }

    fn subgroups(self) -> u32 {
        if self.shares_the_width() {
            self.slices
        } else {
            4
        }
    }

    /// Rows and columns of matrices of a subgroup.
    fn matrices(self) -> [u32; 2] {
        let all = [self.rows, self.columns].map(|side| side / SIDE);
        if self.shares_the_width() {
            all
        } else {
            all.map(|side| side / 2)
        }
    }

    /// Lanes of a workgroup.
    fn all_lanes(self) -> u32 {
        self.subgroups() * self.lanes
    }

    /// Steps that are on their way: fewer where a lane has more of each.
    fn depth(self) -> u32 {
        (64 / self.rows).clamp(1, 4)
    }

    /// Rows of sums that go through workgroup memory at once.
    fn held(self) -> u32 {
        if self.shares_the_width() {
            SIDE
        } else {
            self.rows / 2
        }
    }

    /// The constants of the text.
    pub(super) fn constants(self, normed: bool) -> Vec<(&'static str, u32)> {
        let [block_rows, block_columns] = self.matrices();
        let sums = self.slices * self.held() * self.columns / 4;
        vec![
            ("ROWS", self.rows),
            ("COLUMNS", self.columns),
            ("SLICES", self.slices),
            ("SUBGROUPS", self.subgroups()),
            // Subgroups beside each other that have the same rows.
            ("ACROSS", if self.shares_the_width() { 1 } else { 2 }),
            ("BLOCK_ROWS", block_rows),
            ("BLOCK_COLUMNS", block_columns),
            // With two, what is multiplied is not in the way of what is staged.
            ("BUFFERS", if self.shares_the_width() { 1 } else { 2 }),
            ("DEPTH", self.depth()),
            ("HELD", self.held()),
            ("SHARED", if normed { sums.max(OF_NORMS) } else { sums }),
            ("LANES", self.all_lanes()),
        ]
    }

    /// The kernel's own files.
    pub(super) fn source(self, stored: StorageFormat) -> String {
        let [block_rows, block_columns] = self.matrices();
        let lanes = self.all_lanes();
        let fold = if self.shares_the_width() {
            for_each_lane(block_rows, shader!("matmul/matmul_cooperative_fold.wgsl"))
        } else {
            String::new()
        };
        let steps = for_each_lane(self.depth(), shader!("matmul/matmul_cooperative_step.wgsl"));
        let prefetch = for_each_lane(self.depth(), PREFETCH);
        let text = shader!("matmul/matmul_cooperative.wgsl")
            .replace("$PREFETCH", &prefetch)
            .replace("$STEPS", &steps)
            .replace("$FOLD", &fold);
        let counts = [
            ("$R", block_rows),
            ("$C", block_columns),
            ("$Q", (self.held() * self.columns / 4).div_ceil(lanes)),
            ("$X", (self.slices * self.rows * 8).div_ceil(lanes)),
            ("$W", (self.slices * self.columns * 2).div_ceil(lanes)),
        ];
        let each = |text: String, (letter, count): (&str, u32)| for_each(letter, count, &text);
        let written = counts.into_iter().fold(text, each);
        stored.description().texts.pieces.to_owned() + "\n" + &written
    }
}

/// What is on its way before the first step.
const PREFETCH: &str =
    "    var piece_$N_$W = piece_at(lane + $Wu * LANES, $Nu, each, first_column);
    var x_$N_$X = input_at(lane + $Xu * LANES, $Nu, each, first_row, rows);";

/// The same text with plain arithmetic in place of cooperative matrices, for devices without them: a lane has the sums of a matrix
/// that such a matrix's would, and multiplies what is staged in order. So tests see that what lies where, what is padded, who sums what
/// and in which order is right; not that a device's own matrices are.
pub(super) fn emulated(written: &str) -> String {
    let mut text = String::new();
    for line in written.lines() {
        if line.contains("@builtin(subgroup_id)") {
            continue;
        }
        let line = line
            .replace("subgroup % SUBGROUPS", "lane / SUBGROUP % SUBGROUPS")
            .replace("coopLoadT<Input>(&input_tile[", "load_input(")
            .replace("coopLoad<Weight>(&weight_tile[", "load_weight(")
            .replace("], STRIDE)", ")")
            .replace("coopMultiplyAdd(", "multiply_add(lane, ")
            .replace("coopStoreT(", "store_sum(lane, ")
            .replace("&sums[", "")
            .replace("], COLUMNS / 4u)", ")");
        match line.split_once(" += sum_") {
            Some((total, sum)) if total.trim_start().starts_with("total_") => {
                let sum = sum.trim_end_matches(';');
                let own = total.trim_start();
                text += &format!("{own} = add_sums({own}, sum_{sum});");
            }
            _ => text += &line,
        }
        text.push('\n');
    }
    text + include_str!("emulated.wgsl")
}

//! A description is held to its shaders, to what files have, and to the weights that it makes up.

use tidegate_weights::{RowParts, Tensor};

use super::*;

/// Numbers of any bits, and scales of any size.
struct Any(u32);

impl Any {
    fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.0 >> 8
    }
}

impl WeightNumbers for Any {
    fn element(&mut self) -> f32 {
        self.bits() as f32 / (1 << 23) as f32 - 1.0
    }

    fn scale(&mut self, largest: f32) -> f32 {
        largest * (0.5 + 0.5 * self.element().abs())
    }

    fn integers(&mut self) -> u8 {
        (self.bits() >> 8) as u8
    }
}

/// Elements of a made-up row: two blocks of those formats that have the largest.
const WIDTH: usize = 2 * BLOCK_GROUPS * GROUP;

/// A row that is made up, as files have it.
fn row(stored: StorageFormat) -> Vec<u8> {
    stored.made_up(&mut Any(1), WIDTH / stored.format().block())
}

fn tensor(stored: StorageFormat, bytes: &[u8]) -> Tensor<'_> {
    Tensor::in_memory("row", stored.format(), 1, WIDTH, bytes).unwrap()
}

#[test]
fn made_up_weights_are_whole_blocks_of_numbers_about_one() {
    for stored in StorageFormat::ALL {
        let bytes = row(stored);
        assert_eq!(
            bytes.len(),
            stored.format().row_bytes(WIDTH),
            "{stored:?}: bytes"
        );
        let values = tensor(stored, &bytes).to_f32().unwrap();
        let largest = values.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        assert!((0.05..=5.0).contains(&largest), "{stored:?}: {largest}");
        let [less, more] =
            [-1.0, 1.0].map(|sign| values.iter().filter(|x| **x * sign > 0.0).count());
        assert!(
            less > WIDTH / 8 && more > WIDTH / 8,
            "{stored:?}: {less} below 0, {more} above"
        );
    }
}

/// What files have and no plane takes would be lost on the way.
#[test]
fn planes_take_all_that_is_stored() {
    for stored in StorageFormat::ALL {
        let bytes = row(stored);
        let mut parts = RowParts::default();
        tensor(stored, &bytes).row_parts(0, &mut parts).unwrap();
        if let Elements::Integers { prepare } = stored.description().elements {
            prepare(&mut parts);
        }
        let planes: Vec<&[u8]> = stored
            .planes()
            .iter()
            .map(|plane| plane.of(&parts))
            .collect();
        for (plane, numbers) in stored.planes().iter().zip(&planes) {
            assert_eq!(
                numbers.len(),
                plane.bytes(WIDTH / GROUP),
                "{stored:?}: {plane:?}"
            );
            assert!(numbers.iter().any(|byte| *byte != 0), "{stored:?}");
        }
        for part in [&parts.values, &parts.scales, &parts.supers, &parts.high] {
            let times = planes
                .iter()
                .filter(|plane| plane.as_ptr() == part.as_ptr());
            let wanted = usize::from(!part.is_empty());
            assert_eq!(times.count(), wanted, "{stored:?}: {} bytes", part.len());
        }
    }
}

#[test]
fn shaders_say_what_their_description_does() {
    for stored in StorageFormat::ALL {
        let Description {
            texts,
            columns,
            dot,
            ..
        } = stored.description();
        let says = |text: &str, name: &str, value: usize| {
            let line = format!("const {name}: u32 = {value}u;");
            assert!(text.contains(&line), "{stored:?}: no `{line}` in\n{text}");
        };
        let chunks = stored.planes()[0].pieces;
        says(texts.decode, "CHUNKS", chunks);
        says(texts.columns, "UNITS", columns.units as usize);
        says(texts.columns, "OCTETS", columns.octets() as usize);
        assert_eq!(columns.units * columns.octets() * 8, GROUP as u32);
        if let Some(dot) = dot {
            says(dot.text, "CHUNKS", chunks);
            // What matmul_dot.wgsl reads by itself is a scale for each group.
            assert_eq!(stored.planes().len(), 2, "{stored:?}");
            assert_eq!(stored.planes()[1].bytes(1), 2, "{stored:?}");
        }
    }
}

#[test]
fn floats_have_as_many_bytes_as_their_elements() {
    for stored in StorageFormat::ALL {
        let Elements::Floats { bytes } = stored.description().elements else {
            assert!(!stored.format().is_float(), "{stored:?}");
            continue;
        };
        assert!(stored.is_float() && stored.format().is_float());
        assert_eq!(stored.format().block_bytes(), bytes, "{stored:?}");
        assert_eq!(stored.row_bytes(1), GROUP * bytes, "{stored:?}");
    }
}

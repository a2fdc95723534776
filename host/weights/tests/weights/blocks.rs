//! Tensors in every format of blocks: what is handed on of those that no kernel reads, and what is refused.

use std::path::Path;

use tidegate_weights::{
    Checkpoint, DecoderTensor, Format, LayerTensor, RowParts, Stored, StoredFormat, Tensor, convert,
};

use crate::goldens::golden;
use crate::made::{BLOCKS, Files, Gguf, gguf_experts, gguf_in};
use crate::probe::probe;

const GATE: DecoderTensor = DecoderTensor::Layer(0, LayerTensor::Gate);

fn open(file: &Gguf) -> Checkpoint {
    let files = Files::default().with("m.gguf", file.bytes());
    Checkpoint::open(Path::new("m.gguf"), &files).unwrap_or_else(|error| panic!("{error}"))
}

fn stored(tensor: &Tensor<'_>) -> StoredFormat {
    match tensor.stored() {
        Stored::Blocks(format) => format,
        other => panic!("{other}"),
    }
}

fn refusal(file: &Gguf) -> String {
    let files = Files::default().with("m.gguf", file.bytes());
    match Checkpoint::open(Path::new("m.gguf"), &files) {
        Err(error) => error.to_string(),
        Ok(checkpoint) => checkpoint.check().unwrap_err().to_string(),
    }
}

#[test]
fn every_format_of_blocks_opens_and_is_handed_on_in_one_that_kernels_read() {
    for (number, elements, size, _) in BLOCKS {
        let checkpoint = open(&gguf_in(number));
        checkpoint.check().unwrap();
        assert_eq!(probe(&checkpoint), 11, "{number}");
        let gate = checkpoint.tensor(GATE).unwrap();
        let stored = stored(&gate);
        assert_eq!((stored.block(), stored.block_bytes()), (elements, size));
        assert_eq!(gate.stored_bytes(), (256 * 256 / elements * size) as u64);
        match stored {
            StoredFormat::Kept(format) => {
                assert_eq!(gate.format(), format);
                assert!(checkpoint.reencoded().unwrap().is_empty());
            }
            stored => {
                assert_eq!(gate.format(), Format::Int8);
                let all = checkpoint.reencoded().unwrap();
                let [of] = all.as_slice() else {
                    panic!("{all:?}");
                };
                // Embedding, queries, keys, values, gate, up and down; the output is 16 wide.
                assert_eq!((of.stored, of.held), (Stored::Blocks(stored), Format::Int8));
                assert_eq!(of.tensors, 7);
                let elements_of_all = (8 + 16 + 8 + 8 + 3 * 256) * 256;
                assert_eq!(of.stored_bytes, (elements_of_all / elements * size) as u64);
                assert_eq!(of.handed_on_bytes, (elements_of_all / 32 * 34) as u64);
            }
        }
    }
}

#[test]
fn rows_of_int8_are_those_of_a_conversion_and_their_loss_is_counted() {
    for (number, ..) in BLOCKS {
        let checkpoint = open(&gguf_in(number));
        let stored = stored(&checkpoint.tensor(GATE).unwrap());
        let exact = open(&gguf_in(number)).exact();
        if matches!(stored, StoredFormat::Kept(_)) {
            assert_eq!(exact.tensor(GATE).unwrap().format(), stored.handed_on());
            continue;
        }
        assert_eq!(exact.tensor(GATE).unwrap().format(), Format::F32);
        assert_eq!(checkpoint.reencoded().unwrap()[0].loss, None);
        let given = checkpoint.tensor(GATE).unwrap().to_f32().unwrap();
        let held = exact.tensor(GATE).unwrap().to_f32().unwrap();
        assert_eq!(exact.reencoded().unwrap()[0].loss, None, "nothing is lost");
        let (mut differences, mut squares, mut largest) = (0.0, 0.0, 0f64);
        for (given, held) in given.chunks(32).zip(held.chunks(32)) {
            let greatest = held.iter().fold(0f32, |most, x| most.max(x.abs()));
            for (y, x) in given.iter().zip(held) {
                let difference = f64::from(*x) - f64::from(*y);
                differences += difference * difference;
                squares += f64::from(*x) * f64::from(*x);
                largest = largest.max(difference.abs() / f64::from(greatest));
            }
        }
        let loss = checkpoint.reencoded().unwrap()[0].loss.clone().unwrap();
        let exact = matches!(
            stored,
            StoredFormat::Q5_0 | StoredFormat::Iq4Nl | StoredFormat::Mxfp4
        );
        assert!(largest < 0.5 / 127.0 + 1.0 / 2048.0, "{number}: {largest}");
        assert!(!exact || largest == 0.0, "{number}: {largest}");
        assert!((loss.largest - largest).abs() < 1e-12, "{loss:?}");
        assert!((loss.rms - f64::sqrt(differences / squares)).abs() < 1e-12);
        // A conversion to int8 gives the same.
        let directory = tempfile::tempdir().unwrap();
        convert(&checkpoint, Format::Int8, directory.path(), &mut |_, _| {}).unwrap();
        let converted = Checkpoint::open(directory.path(), &tidegate_weights::ReadWhole).unwrap();
        assert_eq!(converted.tensor(GATE).unwrap().to_f32().unwrap(), given);
    }
}

/// A row that went through int8 on its way to int4 would lose more than one that did not.
#[test]
fn what_is_encoded_otherwise_goes_out_from_what_is_stored() {
    for format in [Format::F32, Format::F16, Format::Int8, Format::Int4] {
        let (given, exact) = (golden("gguf-llama-q5_k"), golden("gguf-llama-q5_k").exact());
        let (given, exact) = (
            given.encoded(format).unwrap(),
            exact.encoded(format).unwrap(),
        );
        let tensors = given.decoder().unwrap().tensors();
        for tensor in tensors {
            let [given, exact] = [&given, &exact].map(|checkpoint| {
                let tensor = checkpoint.tensor(tensor).unwrap();
                (tensor.format(), tensor.to_f32().unwrap())
            });
            assert_eq!(given, exact, "{tensor:?} in {format:?}");
        }
    }
}

#[test]
fn a_scale_that_is_no_number_is_named_with_its_place_in_every_format() {
    for (number, elements, size, scales) in BLOCKS {
        for at in scales {
            for bits in [0x7c00u16, 0xfc00, 0x7e01] {
                let mut file = gguf_in(number);
                let second = 256 / elements * size;
                // q8_K has an f32.
                let bits = if number == 15 { bits | 0x7f80 } else { bits };
                file.tensors[5].3[second + at..][..2].copy_from_slice(&bits.to_le_bytes());
                let checkpoint = open(&file);
                let gate = checkpoint.tensor(GATE).unwrap();
                let error = gate.check_finite().unwrap_err().to_string();
                let words = "tensor `blk.0.ffn_gate.weight` holds ";
                assert!(error.starts_with(words), "{number}: {error}");
                assert!(
                    error.contains(" of row 1, every weight"),
                    "{number}: {error}"
                );
                let mut parts = RowParts::default();
                assert!(gate.row_parts(0, &mut parts).is_ok());
                assert!(gate.row_parts(1, &mut parts).is_err());
            }
        }
    }
}

#[test]
fn rows_that_are_not_whole_blocks_are_refused_by_name() {
    for (number, elements, ..) in BLOCKS {
        let mut file = gguf_in(number);
        file.tensors[5].1[0] = 256 + elements as u64 / 2;
        let error = refusal(&file);
        let name = StoredFormat::ALL
            .into_iter()
            .find(|format| stored(&open(&gguf_in(number)).tensor(GATE).unwrap()) == *format)
            .unwrap()
            .gguf_name();
        let words = format!(
            "tensor `blk.0.ffn_gate.weight` has the shape [{}, 256], whose rows are not whole blocks of {elements} elements \
             ({name})",
            256 + elements / 2
        );
        assert!(error.contains(&words), "{error}");
        // A norm has no rows whose order could be kept.
        let mut file = gguf_in(number);
        file.tensors[8].2 = number;
        file.tensors[8].3 = file.tensors[5].3
            [..256 / elements * BLOCKS.iter().find(|b| b.0 == number).unwrap().2]
            .to_vec();
        let words = format!(
            "tensor `output_norm.weight` is stored as {name}, supported: f32, f16, bf16 for a tensor of one dimension"
        );
        let error = refusal(&file);
        assert!(error.contains(&words), "{error}");
    }
}

#[test]
fn tensors_in_memory_have_as_many_bytes_as_their_shape_says() {
    for stored in StoredFormat::ALL {
        let (width, rows) = (2 * stored.block(), 3);
        let bytes = vec![0; rows * stored.row_bytes(width)];
        let tensor = Tensor::stored_in_memory("t", stored, rows, width, &bytes).unwrap();
        assert_eq!(
            (tensor.stored(), tensor.format()),
            (Stored::Blocks(stored), stored.handed_on())
        );
        assert_eq!(tensor.to_f32().unwrap(), vec![0.0; rows * width]);
        assert!(Tensor::stored_in_memory("t", stored, rows + 1, width, &bytes).is_none());
        if stored.block() > 1 {
            assert!(Tensor::stored_in_memory("t", stored, rows, width - 1, &bytes).is_none());
        }
    }
}

#[test]
fn a_file_of_llama_cpp_s_own_making_holds_what_it_fell_back_to() {
    // Q4_K_M of a model that is 32 wide.
    let checkpoint = golden("gguf-llama-q4_k_m");
    let all = checkpoint.reencoded().unwrap();
    let names: Vec<(&str, usize)> = all
        .iter()
        .map(|of| (of.stored.name(), of.tensors))
        .collect();
    assert_eq!(names, [("q5_0", 12)]);
}

/// [`gguf_experts`] of Mixtral, whose router is of the type of this number in these bytes.
fn with_router(kind: u32, bytes: Vec<u8>) -> Checkpoint {
    let mut file = gguf_experts("llama");
    let mut tensors = file.tensors.iter_mut();
    let router = tensors.find(|(name, ..)| name == "blk.0.ffn_gate_inp.weight");
    *router.unwrap() = (
        "blk.0.ffn_gate_inp.weight".to_owned(),
        vec![32, 2],
        kind,
        bytes,
    );
    let files = Files::default().with("m.gguf", file.bytes());
    let checkpoint = Checkpoint::open(Path::new("m.gguf"), &files).unwrap();
    checkpoint.check().unwrap();
    checkpoint
}

/// What chooses experts is multiplied by kernels of floats, whatever a file has it in.
#[test]
fn a_router_is_handed_on_in_floats() {
    let router = DecoderTensor::Layer(0, LayerTensor::Router);
    // Of two rows the numbers -16..16, with a scale of 0.25 and of 2.
    let numbers = -16..16_i8;
    let rows = [0x3400_u16, 0x4000].map(|scale| {
        let scale = scale.to_le_bytes().into_iter();
        scale.chain(numbers.clone().map(|number| number as u8))
    });
    let q8_0 = with_router(8, rows.into_iter().flatten().collect());
    let tensor = q8_0.tensor(router).unwrap();
    assert_eq!(tensor.format(), Format::F32);
    let expected = [0.25, 2.0].map(|scale| numbers.clone().map(move |n| f32::from(n) * scale));
    let expected: Vec<f32> = expected.into_iter().flatten().collect();
    assert_eq!(tensor.to_f32().unwrap(), expected);
    // Nothing is lost by it, so there is nothing to tell.
    let told = q8_0.reencoded().unwrap();
    assert!(told.iter().all(|of| of.held != Format::F32), "{told:?}");

    // What is not handed on as it is stored becomes f32 and not int8: q5_0, whose numbers are 0..32 less 16.
    let row = [0x34, 0x3c].map(|high| [&[0, high][..], &[0; 4], &[0; 16]].concat());
    let q5_0 = with_router(6, row.concat());
    let tensor = q5_0.tensor(router).unwrap();
    assert_eq!(tensor.format(), Format::F32);
    assert_eq!(tensor.to_f32().unwrap(), [[-4.0; 32], [-16.0; 32]].concat());

    let halves = with_router(1, [0x00, 0x3c].repeat(64));
    assert_eq!(halves.tensor(router).unwrap().format(), Format::F16);
}

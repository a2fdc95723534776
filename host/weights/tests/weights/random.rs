//! Made-up models.

use tidegate_weights::{Checkpoint, DecoderTensor, Format, LayerTensor, ModelConfig, RowParts};

#[test]
fn presets_have_the_parameters_of_their_name() {
    let parameters = |name: &str| ModelConfig::preset(name).unwrap().parameters();
    // 12 layers of 4 · 768² + 3 · 768 · 2048 + 2 · 768, two of 32,000 · 768 outside, a last norm.
    assert_eq!(parameters("125M"), 134_105_856);
    // The published counts of Llama 3.2 1B and Llama 3.1 8B.
    assert_eq!(parameters("1B"), 1_235_814_400);
    assert_eq!(parameters("8B"), 8_030_261_248);
    assert_eq!(ModelConfig::preset("70B"), None);
}

#[test]
fn the_same_seed_makes_the_same_rows_and_another_makes_others() {
    let config = ModelConfig::preset("125M").unwrap();
    let query = DecoderTensor::Layer(3, LayerTensor::Query);
    let row = |seed: u64, tensor: DecoderTensor, format: Format, row: usize| {
        let checkpoint = Checkpoint::random(config.clone(), format, seed);
        let mut out = Vec::new();
        checkpoint
            .tensor(tensor)
            .unwrap()
            .read_row(row, &mut out)
            .unwrap();
        out
    };
    for format in [
        Format::F32,
        Format::F16,
        Format::Bf16,
        Format::Int8,
        Format::Int4,
        Format::Q4K,
        Format::Q6K,
    ] {
        let first = row(7, query, format, 5);
        assert_eq!(first, row(7, query, format, 5));
        assert_ne!(first, row(8, query, format, 5));
        assert_ne!(first, row(7, query, format, 6));
        assert_ne!(
            first,
            row(7, DecoderTensor::Layer(4, LayerTensor::Query), format, 5)
        );
    }
}

#[test]
fn elements_have_the_deviation_that_keeps_activations_in_size() {
    let config = ModelConfig::preset("125M").unwrap();
    for format in [
        Format::F32,
        Format::F16,
        Format::Bf16,
        Format::Int8,
        Format::Int4,
        Format::Q4K,
        Format::Q6K,
    ] {
        let checkpoint = Checkpoint::random(config.clone(), format, 1);
        checkpoint.check().unwrap();
        let tensor = checkpoint
            .tensor(DecoderTensor::Layer(0, LayerTensor::Down))
            .unwrap();
        assert_eq!(tensor.format(), format);
        let (mut sum, mut squares, mut out) = (0.0, 0.0, Vec::new());
        let mut parts = RowParts::default();
        for row in 0..200 {
            tensor.read_row(row, &mut out).unwrap();
            tensor.row_parts(row, &mut parts).unwrap();
            sum += out.iter().map(|x| f64::from(*x)).sum::<f64>();
            squares += out.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>();
        }
        let count = 200.0 * 2048.0;
        let expected = 1.0 / 2048f64.sqrt();
        let deviation = (squares / count).sqrt();
        assert!(
            (deviation / expected - 1.0).abs() < 0.03,
            "{}: {deviation}",
            format.name()
        );
        assert!(
            (sum / count).abs() < 0.05 * expected,
            "{}: {}",
            format.name(),
            sum / count
        );
        let norm = checkpoint.tensor(DecoderTensor::FinalNorm).unwrap();
        assert_eq!(norm.format(), Format::F32);
        assert!(
            norm.to_f32()
                .unwrap()
                .iter()
                .all(|x| (0.8..1.2).contains(x))
        );
    }
}

#[test]
fn the_embedding_of_an_int4_model_is_int8() {
    let checkpoint = Checkpoint::random(ModelConfig::preset("1B").unwrap(), Format::Int4, 1);
    assert_eq!(
        checkpoint
            .tensor(DecoderTensor::Embedding)
            .unwrap()
            .format(),
        Format::Int8
    );
    assert!(
        checkpoint.tensor(DecoderTensor::Head).is_err(),
        "it is tied"
    );
    let gate = checkpoint
        .tensor(DecoderTensor::Layer(15, LayerTensor::Gate))
        .unwrap();
    assert_eq!(
        (gate.format(), gate.rows(), gate.width()),
        (Format::Int4, 8192, 2048)
    );
    assert_eq!(gate.bytes(), 8192 * 2048 / 32 * 18);
    assert!(
        checkpoint
            .tensor(DecoderTensor::Layer(16, LayerTensor::Gate))
            .is_err()
    );
}

#[test]
fn a_digest_tells_models_apart() {
    let model = |format, seed| {
        Checkpoint::random(ModelConfig::preset("8B").unwrap(), format, seed)
            .digest()
            .unwrap()
    };
    let digest = model(Format::F32, 1);
    assert!(
        digest.starts_with("sha256:") && digest.len() == 7 + 64,
        "{digest}"
    );
    assert_eq!(digest, model(Format::F32, 1));
    assert_ne!(digest, model(Format::F32, 2));
    assert_ne!(digest, model(Format::F16, 1));
}

//! Everything that can be asked of a model that was opened: nothing of it may panic, whatever the files hold. The fuzzer
//! includes this file too.

use tidegate_weights::{Architecture, Checkpoint, RowParts, Tensor};

/// Asks for all of it, and says how many tensors were there.
pub(crate) fn probe(checkpoint: &Checkpoint) -> usize {
    let _ = checkpoint.check().map_err(|error| error.to_string());
    let _ = checkpoint.gguf_vocabulary();
    let mut read = 0;
    match checkpoint.architecture() {
        Architecture::Decoder(config) => {
            assert!(config.parameters() > 0);
            for rope in 0..config.ropes.len() {
                let context = config.context.min(4);
                assert_eq!(
                    config.rope_table(rope, context).len(),
                    context * config.ropes[rope].width / 2
                );
            }
            // A hostile file may claim thousands of layers, of which it holds none.
            for tensor in config.tensors().take(64) {
                read += usize::from(checkpoint.tensor(tensor).is_ok_and(|tensor| rows(&tensor)));
            }
        }
        Architecture::Encoder(config) => {
            assert!(config.parameters() > 0);
            let learned = config.positions > 0;
            assert!(!learned || config.context + config.first_position <= config.positions);
            for tensor in config.tensors().take(64) {
                read += usize::from(
                    checkpoint
                        .encoder_tensor(tensor)
                        .is_ok_and(|tensor| rows(&tensor)),
                );
            }
        }
    }
    read
}

/// Reads the first row, the last, and the one past it.
fn rows(tensor: &Tensor<'_>) -> bool {
    let (mut floats, mut parts) = (Vec::new(), RowParts::default());
    for row in [0, tensor.rows() - 1] {
        let whole = tensor.read_row(row, &mut floats).map(|()| floats.len());
        let apart = tensor.row_parts(row, &mut parts);
        assert!(whole.is_err() || whole == Ok(tensor.width()));
        assert_eq!(whole.is_err(), apart.is_err(), "{tensor:?}");
    }
    assert!(tensor.read_row(tensor.rows(), &mut floats).is_err());
    true
}

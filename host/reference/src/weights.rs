//! Tensors widened to float64.

use tidegate_weights::{Tensor, TensorError};

/// A matrix `[rows, width]`, or a vector as one row, with the bias that belongs to it.
pub(crate) struct Matrix {
    pub(crate) values: Vec<f64>,
    pub(crate) width: usize,
    /// `[rows]`
    pub(crate) bias: Option<Vec<f64>>,
}

impl Matrix {
    pub(crate) fn read(tensor: &Tensor<'_>, bias: Option<Tensor<'_>>) -> Result<Self, TensorError> {
        Ok(Matrix {
            values: widened(tensor)?,
            width: tensor.width(),
            bias: bias.as_ref().map(widened).transpose()?,
        })
    }

    /// `x · matrixᵀ + bias`: `x` `[count, width]`, result `[count, rows]`.
    pub(crate) fn times(&self, x: &[f64]) -> Vec<f64> {
        let mut product = crate::kernels::matmul(x, &self.values, self.width);
        if let Some(bias) = &self.bias {
            crate::kernels::add_to_rows(&mut product, bias);
        }
        product
    }

    /// Row `index`, `[width]`.
    pub(crate) fn row(&self, index: usize) -> &[f64] {
        &self.values[index * self.width..][..self.width]
    }

    pub(crate) fn rows(&self) -> usize {
        self.values.len() / self.width
    }

    /// Elements, the bias's included.
    pub(crate) fn len(&self) -> usize {
        self.values.len() + self.bias.as_ref().map_or(0, Vec::len)
    }
}

/// All rows of a tensor, one after another.
pub(crate) fn widened(tensor: &Tensor<'_>) -> Result<Vec<f64>, TensorError> {
    let mut values = Vec::with_capacity(tensor.rows() * tensor.width());
    let mut row = Vec::new();
    for index in 0..tensor.rows() {
        tensor.read_row(index, &mut row)?;
        values.extend(row.iter().copied().map(f64::from));
    }
    Ok(values)
}

// Sums of the rows of a matrix: one reduction over the inner dimension.
func.func @row_sum(%rows: tensor<1024x4096xf32>) -> tensor<1024xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1024xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<1024xf32>) -> tensor<1024xf32>
  %sum = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
    iterator_types = ["parallel", "reduction"]
  } ins(%rows : tensor<1024x4096xf32>) outs(%start : tensor<1024xf32>) {
  ^bb0(%value: f32, %total: f32):
    %next = arith.addf %value, %total : f32
    linalg.yield %next : f32
  } -> tensor<1024xf32>
  return %sum : tensor<1024xf32>
}

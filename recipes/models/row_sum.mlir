// Sums of the rows of a matrix: one reduction over the inner dimension. The matrix fits the caches, so that the time is that
// of the program and not of the memory, which other programs on the machine use too.
func.func @row_sum(%rows: tensor<128x4096xf32>) -> tensor<128xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<128xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<128xf32>) -> tensor<128xf32>
  %sum = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
    iterator_types = ["parallel", "reduction"]
  } ins(%rows : tensor<128x4096xf32>) outs(%start : tensor<128xf32>) {
  ^bb0(%value: f32, %total: f32):
    %next = arith.addf %value, %total : f32
    linalg.yield %next : f32
  } -> tensor<128xf32>
  return %sum : tensor<128xf32>
}

// Attention scores against a paged KV cache: a table names the pages of this sequence, and their keys (plane
// 1 of each page) are gathered and multiplied with the query. Pages and sequence have any length.
func.func @scores(%cache: tensor<?x2x32x8x64xf16>, %table: tensor<?xi64>, %query: tensor<8x4x64xf16>) -> tensor<8x4x?x32xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %pages = tensor.dim %table, %c0 : tensor<?xi64>
  %key_empty = tensor.empty(%pages) : tensor<?x32x8x64xf16>
  %key = linalg.generic {indexing_maps = [affine_map<(p, t, h, d) -> (p)>, affine_map<(p, t, h, d) -> (p, t, h, d)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%table : tensor<?xi64>) outs(%key_empty : tensor<?x32x8x64xf16>) {
  ^bb0(%id: i64, %unused: f16):
    %page = arith.index_cast %id : i64 to index
    %t = linalg.index 1 : index
    %h = linalg.index 2 : index
    %d = linalg.index 3 : index
    %k = tensor.extract %cache[%page, %c1, %t, %h, %d] : tensor<?x2x32x8x64xf16>
    linalg.yield %k : f16
  } -> tensor<?x32x8x64xf16>
  %empty = tensor.empty(%pages) : tensor<8x4x?x32xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x4x?x32xf32>) -> tensor<8x4x?x32xf32>
  %scores = linalg.generic {indexing_maps = [
      affine_map<(h, g, p, t, d) -> (h, g, d)>, affine_map<(h, g, p, t, d) -> (p, t, h, d)>,
      affine_map<(h, g, p, t, d) -> (h, g, p, t)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%query, %key : tensor<8x4x64xf16>, tensor<?x32x8x64xf16>) outs(%init : tensor<8x4x?x32xf32>) {
  ^bb0(%q: f16, %k: f16, %sum: f32):
    %q32 = arith.extf %q : f16 to f32
    %k32 = arith.extf %k : f16 to f32
    %product = arith.mulf %q32, %k32 : f32
    %next = arith.addf %product, %sum : f32
    linalg.yield %next : f32
  } -> tensor<8x4x?x32xf32>
  return %scores : tensor<8x4x?x32xf32>
}

// Attention scores against one page of a KV cache. The cache holds 4 pages of 64 heads x 128 tokens, and keys
// and values are interleaved in its rows of 192: the keys are gathered from the even places, then
// multiplied with the query and summed in f32.
func.func @scores(%cache: tensor<4x64x128x192xf16>, %query: tensor<64x128x96xf16>) -> tensor<64x128x128xf32> {
  %c2 = arith.constant 2 : index
  %zero = arith.constant 0.0 : f32
  %page = tensor.extract_slice %cache[1, 0, 0, 0] [1, 64, 128, 192] [1, 1, 1, 1]
      : tensor<4x64x128x192xf16> to tensor<64x128x192xf16>
  %key_empty = tensor.empty() : tensor<64x128x96xf16>
  %key = linalg.generic {indexing_maps = [affine_map<(h, t, d) -> (h, t, d)>],
      iterator_types = ["parallel", "parallel", "parallel"]} outs(%key_empty : tensor<64x128x96xf16>) {
  ^bb0(%unused: f16):
    %h = linalg.index 0 : index
    %t = linalg.index 1 : index
    %d = linalg.index 2 : index
    %even = arith.muli %d, %c2 : index
    %k = tensor.extract %page[%h, %t, %even] : tensor<64x128x192xf16>
    linalg.yield %k : f16
  } -> tensor<64x128x96xf16>
  %empty = tensor.empty() : tensor<64x128x128xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<64x128x128xf32>) -> tensor<64x128x128xf32>
  %scores = linalg.generic {indexing_maps = [
      affine_map<(h, s, t, d) -> (h, s, d)>, affine_map<(h, s, t, d) -> (h, t, d)>, affine_map<(h, s, t, d) -> (h, s, t)>],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%query, %key : tensor<64x128x96xf16>, tensor<64x128x96xf16>) outs(%init : tensor<64x128x128xf32>) {
  ^bb0(%q: f16, %k: f16, %sum: f32):
    %q32 = arith.extf %q : f16 to f32
    %k32 = arith.extf %k : f16 to f32
    %product = arith.mulf %q32, %k32 : f32
    %next = arith.addf %product, %sum : f32
    linalg.yield %next : f32
  } -> tensor<64x128x128xf32>
  return %scores : tensor<64x128x128xf32>
}

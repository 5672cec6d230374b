#map = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d4, d5 + d1, d6 + d2, d3)>
#map1 = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d4, d5, d6, d0)>
#map2 = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>
module {
  func.func @weight_backward(%arg0: tensor<2x35x35x3xbf16>, %arg1: tensor<2x2x2x2xbf16>, %arg2: tensor<2x3x3x3xf32>) -> tensor<2x3x3x3xf32> {
    %0 = linalg.generic {indexing_maps = [#map, #map1, #map2], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%arg0, %arg1 : tensor<2x35x35x3xbf16>, tensor<2x2x2x2xbf16>) outs(%arg2 : tensor<2x3x3x3xf32>) {
    ^bb0(%in: bf16, %in_0: bf16, %out: f32):
      %1 = arith.extf %in : bf16 to f32
      linalg.yield %1 : f32
    } -> tensor<2x3x3x3xf32>
    return %0 : tensor<2x3x3x3xf32>
  }
}

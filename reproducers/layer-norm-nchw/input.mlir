#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d1)>
module {
  func.func @layer_norm(%arg0: tensor<96x14xf32>) -> tensor<3x14xf32> {
    %0 = tensor.empty() : tensor<14xf32>
    %1 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["reduction", "parallel"]} ins(%arg0 : tensor<96x14xf32>) outs(%0 : tensor<14xf32>) {
    ^bb0(%in: f32, %out: f32):
      %4 = arith.addf %in, %out : f32
      linalg.yield %4 : f32
    } -> tensor<14xf32>
    %2 = tensor.empty() : tensor<3x14xf32>
    %3 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel"]} ins(%1 : tensor<14xf32>) outs(%2 : tensor<3x14xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<3x14xf32>
    return %3 : tensor<3x14xf32>
  }
}

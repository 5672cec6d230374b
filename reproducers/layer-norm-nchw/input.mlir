#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
module {
  func.func @layer_norm(%arg0: tensor<1x96x1x3xf32>) -> tensor<1x3x1x3xf32> {
    %0 = tensor.empty() : tensor<1x1x3xf32>
    %1 = tensor.empty() : tensor<1x3x1x3xf32>
    %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction", "parallel", "parallel"]} ins(%arg0 : tensor<1x96x1x3xf32>) outs(%0 : tensor<1x1x3xf32>) {
    ^bb0(%in: f32, %out: f32):
      %4 = arith.addf %in, %out : f32
      linalg.yield %4 : f32
    } -> tensor<1x1x3xf32>
    %3 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%2 : tensor<1x1x3xf32>) outs(%1 : tensor<1x3x1x3xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x3x1x3xf32>
    return %3 : tensor<1x3x1x3xf32>
  }
}

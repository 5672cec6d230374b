#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
module {
  func.func @matvec(%arg0: tensor<2x1x1xi4>, %arg1: tensor<1x1xf16>, %arg2: tensor<1x1xf16>) -> tensor<2x1x1xf16> {
    %0 = tensor.empty() : tensor<2x1x1xf16>
    %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0 : tensor<2x1x1xi4>) outs(%0 : tensor<2x1x1xf16>) {
    ^bb0(%in: i4, %out: f16):
      %2 = arith.extui %in : i4 to i32
      %3 = arith.uitofp %2 : i32 to f16
      linalg.yield %3 : f16
    } -> tensor<2x1x1xf16>
    return %1 : tensor<2x1x1xf16>
  }
}

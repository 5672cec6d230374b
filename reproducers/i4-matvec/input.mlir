#map = affine_map<(d0) -> (d0)>
module {
  func.func @matvec(%arg0: tensor<2xi4>) -> tensor<2xf16> {
    %0 = tensor.empty() : tensor<2xf16>
    %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%arg0 : tensor<2xi4>) outs(%0 : tensor<2xf16>) {
    ^bb0(%in: i4, %out: f16):
      %2 = arith.extui %in : i4 to i32
      %3 = arith.uitofp %2 : i32 to f16
      linalg.yield %3 : f16
    } -> tensor<2xf16>
    return %1 : tensor<2xf16>
  }
}

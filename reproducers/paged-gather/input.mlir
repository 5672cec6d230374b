#map = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @scores(%arg0: tensor<4x64x128x192xf16>) -> tensor<64x6xf16> {
    %extracted_slice = tensor.extract_slice %arg0[1, 0, 0, 0] [1, 64, 128, 192] [1, 1, 1, 1] : tensor<4x64x128x192xf16> to tensor<64x128x192xf16>
    %0 = tensor.empty() : tensor<64x6xf16>
    %1 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel", "parallel"]} outs(%0 : tensor<64x6xf16>) {
    ^bb0(%out: f16):
      %2 = linalg.index 0 : index
      %extracted = tensor.extract %extracted_slice[%2, %2, %2] : tensor<64x128x192xf16>
      linalg.yield %extracted : f16
    } -> tensor<64x6xf16>
    return %1 : tensor<64x6xf16>
  }
}

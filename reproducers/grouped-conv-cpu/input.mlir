#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d1)>
module {
  func.func @grouped_conv(%arg0: tensor<256xf32>, %arg1: tensor<8x64x4x58x58xf32>, %arg2: tensor<64x4x4x3x3xf32>, %arg3: tensor<8x64x4x14x14xf32>) -> tensor<8x256x14x14xf32> {
    %0 = linalg.conv_2d_ngchw_gfchw ins(%arg1, %arg2 : tensor<8x64x4x58x58xf32>, tensor<64x4x4x3x3xf32>) outs(%arg3 : tensor<8x64x4x14x14xf32>) -> tensor<8x64x4x14x14xf32>
    %collapsed = tensor.collapse_shape %0 [[0], [1, 2], [3], [4]] : tensor<8x64x4x14x14xf32> into tensor<8x256x14x14xf32>
    %1 = tensor.empty() : tensor<8x256x14x14xf32>
    %2 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%collapsed, %arg0 : tensor<8x256x14x14xf32>, tensor<256xf32>) outs(%1 : tensor<8x256x14x14xf32>) {
    ^bb0(%in: f32, %in_0: f32, %out: f32):
      %3 = arith.subf %in, %in_0 : f32
      linalg.yield %3 : f32
    } -> tensor<8x256x14x14xf32>
    return %2 : tensor<8x256x14x14xf32>
  }
}

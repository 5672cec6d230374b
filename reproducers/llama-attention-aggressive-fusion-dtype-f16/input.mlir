#map = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3, d4, d5, d6)>
#map1 = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d1, d2, d3, d4, d5)>
#map2 = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d6, d7, d1, d5)>
#map3 = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d6, d7, d1, d8)>
#map4 = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> ()>
#map5 = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d1, d2, d3, d4, d6, d7)>
#map6 = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d1, d2, d3, d4, d8)>
#map7 = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d3, d4, d1, d2, d5)>
#map8 = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3, d4, d5)>
module {
  func.func @attention(%arg0: tensor<4x?x16x8x8xf32>, %arg1: tensor<4x8x4x?x32x?x16xf32>, %arg2: tensor<4x8x4x?x32x8xf32>, %arg3: tensor<4x?x16x8x8xf32>, %arg4: tensor<4x8x4x?x32x8xf32>, %arg5: tensor<4x?x32x8x4x8xf32>) -> tensor<4x?x32x8x4x8xf32> {
    %cst = arith.constant 0.000000e+00 : f32
    %cst_0 = arith.constant 0xFF800000 : f32
    %cst_1 = arith.constant 0.0883788987 : f32
    %0 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "parallel"]} outs(%arg1 : tensor<4x8x4x?x32x?x16xf32>) {
    ^bb0(%out: f32):
      %3 = linalg.index 3 : index
      %4 = linalg.index 5 : index
      %5 = arith.cmpi sge, %3, %4 : index
      %6 = arith.select %5, %cst, %cst_0 : f32
      linalg.yield %6 : f32
    } -> tensor<4x8x4x?x32x?x16xf32>
    %1 = iree_linalg_ext.attention {indexing_maps = [#map1, #map2, #map3, #map4, #map5, #map6]} ins(%arg2, %arg3, %arg0, %cst_1, %0 : tensor<4x8x4x?x32x8xf32>, tensor<4x?x16x8x8xf32>, tensor<4x?x16x8x8xf32>, f32, tensor<4x8x4x?x32x?x16xf32>) outs(%arg4 : tensor<4x8x4x?x32x8xf32>) {
    ^bb0(%arg6: f32):
      iree_linalg_ext.yield %arg6 : f32
    } -> tensor<4x8x4x?x32x8xf32>
    %2 = linalg.generic {indexing_maps = [#map7, #map8], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%1 : tensor<4x8x4x?x32x8xf32>) outs(%arg5 : tensor<4x?x32x8x4x8xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<4x?x32x8x4x8xf32>
    return %2 : tensor<4x?x32x8x4x8xf32>
  }
}

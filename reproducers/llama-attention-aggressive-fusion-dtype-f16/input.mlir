#map = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3, d4, d5, d6)>
#map1 = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d1, d2, d3, d4, d5)>
#map2 = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d6, d7, d1, d5)>
#map3 = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d6, d7, d1, d8)>
#map4 = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> ()>
#map5 = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d1, d2, d3, d4, d6, d7)>
#map6 = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d1, d2, d3, d4, d8)>
#map7 = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d3, d4, d1, d2, d5)>
#map8 = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3, d4, d5)>
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4x?x16x8x8xf32>, tensor<4x8x4x?x32x?x16xf32>, tensor<4x8x4x?x32x8xf32>, tensor<4x?x16x8x8xf32>, tensor<4x8x4x?x32x8xf32>, tensor<4x?x32x8x4x8xf32>) -> (tensor<4x?x32x8x4x8xf32>), sym_name = "attention"}> ({
  ^bb0(%arg0: tensor<4x?x16x8x8xf32>, %arg1: tensor<4x8x4x?x32x?x16xf32>, %arg2: tensor<4x8x4x?x32x8xf32>, %arg3: tensor<4x?x16x8x8xf32>, %arg4: tensor<4x8x4x?x32x8xf32>, %arg5: tensor<4x?x32x8x4x8xf32>):
    %0 = "arith.constant"() <{value = 0.000000e+00 : f32}> : () -> f32
    %1 = "arith.constant"() <{value = 0xFF800000 : f32}> : () -> f32
    %2 = "arith.constant"() <{value = 8.837890e-02 : f32}> : () -> f32
    %3 = "linalg.generic"(%arg1) <{indexing_maps = [#map], iterator_types = [#linalg.iterator_type<parallel>, #linalg.iterator_type<parallel>, #linalg.iterator_type<parallel>, #linalg.iterator_type<parallel>, #linalg.iterator_type<parallel>, #linalg.iterator_type<parallel>, #linalg.iterator_type<parallel>], operandSegmentSizes = array<i32: 0, 1>}> ({
    ^bb1(%arg6: f32):
      %4 = "linalg.index"() <{dim = 3 : i64}> : () -> index
      %5 = "linalg.index"() <{dim = 5 : i64}> : () -> index
      %6 = "arith.cmpi"(%4, %5) <{predicate = 5 : i64}> : (index, index) -> i1
      %7 = "arith.select"(%6, %0, %1) : (i1, f32, f32) -> f32
      "linalg.yield"(%7) : (f32) -> ()
    }) : (tensor<4x8x4x?x32x?x16xf32>) -> tensor<4x8x4x?x32x?x16xf32>
    %8 = "iree_linalg_ext.attention"(%arg2, %arg3, %arg0, %2, %3, %arg4) <{indexing_maps = [#map1, #map2, #map3, #map4, #map5, #map6]}> ({
    ^bb2(%arg7: f32):
      "iree_linalg_ext.yield"(%arg7) : (f32) -> ()
    }) : (tensor<4x8x4x?x32x8xf32>, tensor<4x?x16x8x8xf32>, tensor<4x?x16x8x8xf32>, f32, tensor<4x8x4x?x32x?x16xf32>, tensor<4x8x4x?x32x8xf32>) -> tensor<4x8x4x?x32x8xf32>
    %9 = "linalg.generic"(%8, %arg5) <{indexing_maps = [#map7, #map8], iterator_types = [#linalg.iterator_type<parallel>, #linalg.iterator_type<parallel>, #linalg.iterator_type<parallel>, #linalg.iterator_type<parallel>, #linalg.iterator_type<parallel>, #linalg.iterator_type<parallel>], operandSegmentSizes = array<i32: 1, 1>}> ({
    ^bb3(%arg8: f32, %arg9: f32):
      "linalg.yield"(%arg8) : (f32) -> ()
    }) : (tensor<4x8x4x?x32x8xf32>, tensor<4x?x32x8x4x8xf32>) -> tensor<4x?x32x8x4x8xf32>
    "func.return"(%9) : (tensor<4x?x32x8x4x8xf32>) -> ()
  }) : () -> ()
}) : () -> ()

module {
  func.func @conv(%arg0: tensor<1x3x16x16xf32>, %arg1: tensor<2x3x3x3xf32>, %arg2: tensor<1x2x14x14xf32>) -> tensor<1x2x14x14xf32> {
    %0 = linalg.conv_2d_nchw_fchw ins(%arg0, %arg1 : tensor<1x3x16x16xf32>, tensor<2x3x3x3xf32>) outs(%arg2 : tensor<1x2x14x14xf32>) -> tensor<1x2x14x14xf32>
    return %0 : tensor<1x2x14x14xf32>
  }
}

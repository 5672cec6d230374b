// A 3x3 convolution of 128 channels in 32 groups, NCHW. The frontend expands the channels into groups
// for conv_2d_ngchw_gfchw and collapses them again after it.
func.func @grouped_conv(%image: tensor<1x128x56x56xf32>, %filter: tensor<128x4x3x3xf32>) -> tensor<1x128x54x54xf32> {
  %zero = arith.constant 0.0 : f32
  %image_groups = tensor.expand_shape %image [[0], [1, 2], [3], [4]] output_shape [1, 32, 4, 56, 56]
      : tensor<1x128x56x56xf32> into tensor<1x32x4x56x56xf32>
  %filter_groups = tensor.expand_shape %filter [[0, 1], [2], [3], [4]] output_shape [32, 4, 4, 3, 3]
      : tensor<128x4x3x3xf32> into tensor<32x4x4x3x3xf32>
  %empty = tensor.empty() : tensor<1x32x4x54x54xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x32x4x54x54xf32>) -> tensor<1x32x4x54x54xf32>
  %conv = linalg.conv_2d_ngchw_gfchw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%image_groups, %filter_groups : tensor<1x32x4x56x56xf32>, tensor<32x4x4x3x3xf32>)
      outs(%init : tensor<1x32x4x54x54xf32>) -> tensor<1x32x4x54x54xf32>
  %result = tensor.collapse_shape %conv [[0], [1, 2], [3], [4]]
      : tensor<1x32x4x54x54xf32> into tensor<1x128x54x54xf32>
  return %result : tensor<1x128x54x54xf32>
}

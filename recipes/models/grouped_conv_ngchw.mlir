// A 3x3 convolution in 2 groups, NCHW, as split-attention networks have it: 128 channels in, 256 out.
// The frontend expands the channels into groups for conv_2d_ngchw_gfchw and collapses them after it.
// The bias is what the sum starts from, so the accumulator is read as well as written.
func.func @grouped_conv(%image: tensor<1x128x58x58xf32>, %filter: tensor<256x64x3x3xf32>,
                        %bias: tensor<256xf32>) -> tensor<1x256x56x56xf32> {
  %image_groups = tensor.expand_shape %image [[0], [1, 2], [3], [4]] output_shape [1, 2, 64, 58, 58]
      : tensor<1x128x58x58xf32> into tensor<1x2x64x58x58xf32>
  %filter_groups = tensor.expand_shape %filter [[0, 1], [2], [3], [4]] output_shape [2, 128, 64, 3, 3]
      : tensor<256x64x3x3xf32> into tensor<2x128x64x3x3xf32>
  %empty = tensor.empty() : tensor<1x256x56x56xf32>
  %start = linalg.broadcast ins(%bias : tensor<256xf32>) outs(%empty : tensor<1x256x56x56xf32>) dimensions = [0, 2, 3]
  %start_groups = tensor.expand_shape %start [[0], [1, 2], [3], [4]] output_shape [1, 2, 128, 56, 56]
      : tensor<1x256x56x56xf32> into tensor<1x2x128x56x56xf32>
  %conv = linalg.conv_2d_ngchw_gfchw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%image_groups, %filter_groups : tensor<1x2x64x58x58xf32>, tensor<2x128x64x3x3xf32>)
      outs(%start_groups : tensor<1x2x128x56x56xf32>) -> tensor<1x2x128x56x56xf32>
  %result = tensor.collapse_shape %conv [[0], [1, 2], [3], [4]]
      : tensor<1x2x128x56x56xf32> into tensor<1x256x56x56xf32>
  return %result : tensor<1x256x56x56xf32>
}

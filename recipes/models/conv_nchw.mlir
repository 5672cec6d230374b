// A small 3x3 convolution, NCHW, whose channel counts (3 in, 2 out) leave most of any tile empty.
func.func @conv(%image: tensor<10x3x16x16xf32>, %filter: tensor<2x3x3x3xf32>) -> tensor<10x2x14x14xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<10x2x14x14xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<10x2x14x14xf32>) -> tensor<10x2x14x14xf32>
  %result = linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%image, %filter : tensor<10x3x16x16xf32>, tensor<2x3x3x3xf32>)
      outs(%init : tensor<10x2x14x14xf32>) -> tensor<10x2x14x14xf32>
  return %result : tensor<10x2x14x14xf32>
}

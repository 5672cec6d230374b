// A 3x3 convolution whose 8-bit filter is scaled back per output channel right in front of it, NCHW.
// Fusing the scaling means holding the whole filter tile as f32.
#filter  = affine_map<(f, c, y, x) -> (f, c, y, x)>
#channel = affine_map<(f, c, y, x) -> (f)>
func.func @conv(%image: tensor<1x64x34x34xf32>, %filter: tensor<256x64x3x3xi8>,
                %scale: tensor<256xf32>) -> tensor<1x256x32x32xf32> {
  %zero = arith.constant 0.0 : f32
  %filter_empty = tensor.empty() : tensor<256x64x3x3xf32>
  %filter_f32 = linalg.generic {indexing_maps = [#filter, #channel, #filter],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%filter, %scale : tensor<256x64x3x3xi8>, tensor<256xf32>) outs(%filter_empty : tensor<256x64x3x3xf32>) {
  ^bb0(%w: i8, %s: f32, %unused: f32):
    %wide = arith.extsi %w : i8 to i32
    %real = arith.sitofp %wide : i32 to f32
    %scaled = arith.mulf %real, %s : f32
    linalg.yield %scaled : f32
  } -> tensor<256x64x3x3xf32>
  %empty = tensor.empty() : tensor<1x256x32x32xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x256x32x32xf32>) -> tensor<1x256x32x32xf32>
  %result = linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%image, %filter_f32 : tensor<1x64x34x34xf32>, tensor<256x64x3x3xf32>)
      outs(%init : tensor<1x256x32x32xf32>) -> tensor<1x256x32x32xf32>
  return %result : tensor<1x256x32x32xf32>
}

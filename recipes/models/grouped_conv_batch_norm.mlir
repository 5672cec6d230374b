// A 3x3 convolution in 64 groups of 4 channels, followed by a batch norm, as in ResNeXt, batch of 16.
// The norm is fused behind the convolution through the reshape that undoes the groups.
#image   = affine_map<(b, c, h, w) -> (b, c, h, w)>
#channel = affine_map<(b, c, h, w) -> (c)>
func.func @grouped_conv(%image: tensor<16x256x56x56xf32>, %filter: tensor<256x4x3x3xf32>, %mean: tensor<256xf32>,
                        %variance: tensor<256xf32>, %gamma: tensor<256xf32>, %beta: tensor<256xf32>) -> tensor<16x256x56x56xf32> {
  %zero = arith.constant 0.0 : f32
  %epsilon = arith.constant 1.0e-5 : f32
  %padded = tensor.pad %image low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%b: index, %c: index, %h: index, %w: index):
    tensor.yield %zero : f32
  } : tensor<16x256x56x56xf32> to tensor<16x256x58x58xf32>
  %image_groups = tensor.expand_shape %padded [[0], [1, 2], [3], [4]] output_shape [16, 64, 4, 58, 58]
      : tensor<16x256x58x58xf32> into tensor<16x64x4x58x58xf32>
  %filter_groups = tensor.expand_shape %filter [[0, 1], [2], [3], [4]] output_shape [64, 4, 4, 3, 3]
      : tensor<256x4x3x3xf32> into tensor<64x4x4x3x3xf32>
  %conv_empty = tensor.empty() : tensor<16x64x4x56x56xf32>
  %init = linalg.fill ins(%zero : f32) outs(%conv_empty : tensor<16x64x4x56x56xf32>) -> tensor<16x64x4x56x56xf32>
  %conv = linalg.conv_2d_ngchw_gfchw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%image_groups, %filter_groups : tensor<16x64x4x58x58xf32>, tensor<64x4x4x3x3xf32>)
      outs(%init : tensor<16x64x4x56x56xf32>) -> tensor<16x64x4x56x56xf32>
  %flat = tensor.collapse_shape %conv [[0], [1, 2], [3], [4]] : tensor<16x64x4x56x56xf32> into tensor<16x256x56x56xf32>
  %empty = tensor.empty() : tensor<16x256x56x56xf32>
  %result = linalg.generic {indexing_maps = [#image, #channel, #channel, #channel, #channel, #image],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%flat, %mean, %variance, %gamma, %beta
          : tensor<16x256x56x56xf32>, tensor<256xf32>, tensor<256xf32>, tensor<256xf32>, tensor<256xf32>)
      outs(%empty : tensor<16x256x56x56xf32>) {
  ^bb0(%x: f32, %m: f32, %v: f32, %g: f32, %b: f32, %unused: f32):
    %centred = arith.subf %x, %m : f32
    %stable = arith.addf %v, %epsilon : f32
    %inverse = math.rsqrt %stable : f32
    %normal = arith.mulf %centred, %inverse : f32
    %scaled = arith.mulf %normal, %g : f32
    %shifted = arith.addf %scaled, %b : f32
    linalg.yield %shifted : f32
  } -> tensor<16x256x56x56xf32>
  return %result : tensor<16x256x56x56xf32>
}

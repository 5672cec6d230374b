#nchw = affine_map<(b, c, h, w) -> (b, c, h, w)>
#c = affine_map<(b, c, h, w) -> (c)>
%p_e = tensor.empty() : tensor<16x64x4x56x56xf32>
%p_i = linalg.fill ins(%zero : f32) outs(%p_e : tensor<16x64x4x56x56xf32>) -> tensor<16x64x4x56x56xf32>
%p_c = linalg.conv_2d_ngchw_gfchw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
    ins(%p_x, %p_k : tensor<16x64x4x58x58xf32>, tensor<64x4x4x3x3xf32>) outs(%p_i : tensor<16x64x4x56x56xf32>) -> tensor<16x64x4x56x56xf32>
%p_f = tensor.collapse_shape %p_c [[0], [1, 2], [3], [4]] : tensor<16x64x4x56x56xf32> into tensor<16x256x56x56xf32>
%p_fe = tensor.empty() : tensor<16x256x56x56xf32>
%p_n = linalg.generic {indexing_maps = [#nchw, #c, #nchw],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%p_f, %p_s : tensor<16x256x56x56xf32>, tensor<256xf32>) outs(%p_fe : tensor<16x256x56x56xf32>) {
^bb0(%a: f32, %b: f32, %o: f32):
  %s = arith.mulf %a, %b : f32
  %r = math.rsqrt %b : f32
  %t = arith.addf %s, %r : f32
  linalg.yield %t : f32
} -> tensor<16x256x56x56xf32>
%p_v = tensor.extract %p_n[%c0, %c0, %c0, %c0] : tensor<16x256x56x56xf32>
%p_oe = tensor.empty() : tensor<64x128xf32>
%out = linalg.generic {indexing_maps = [#xy, #xy], iterator_types = ["parallel", "parallel"]}
    ins(%in : tensor<64x128xf32>) outs(%p_oe : tensor<64x128xf32>) {
^bb0(%a: f32, %o: f32):
  %s = arith.addf %a, %p_v : f32
  linalg.yield %s : f32
} -> tensor<64x128xf32>

%p_one = arith.constant 1 : index
%p_f:2 = iree_linalg_ext.fft ins(%p_one : index) outs(%p_re, %p_im : tensor<4x1024xf32>, tensor<4x1024xf32>) : tensor<4x1024xf32>, tensor<4x1024xf32>
%p_v = tensor.extract %p_f#0[%c0, %c0] : tensor<4x1024xf32>
%p_oe = tensor.empty() : tensor<64x128xf32>
%out = linalg.generic {indexing_maps = [#xy, #xy], iterator_types = ["parallel", "parallel"]}
    ins(%in : tensor<64x128xf32>) outs(%p_oe : tensor<64x128xf32>) {
^bb0(%a: f32, %o: f32):
  %s = arith.addf %a, %p_v : f32
  linalg.yield %s : f32
} -> tensor<64x128xf32>

#nchw = affine_map<(b, c, h, w) -> (b, c, h, w)>
#nhw = affine_map<(b, c, h, w) -> (b, h, w)>
#c = affine_map<(b, c, h, w) -> (c)>
%p_pe = tensor.empty() : tensor<8x56x56xf32>
%p_ie = tensor.empty() : tensor<8x96x56x56xf32>
%p_pi = linalg.fill ins(%zero : f32) outs(%p_pe : tensor<8x56x56xf32>) -> tensor<8x56x56xf32>
%p_sum = linalg.generic {indexing_maps = [#nchw, #nhw],
    iterator_types = ["parallel", "reduction", "parallel", "parallel"]}
    ins(%p_x : tensor<8x96x56x56xf32>) outs(%p_pi : tensor<8x56x56xf32>) {
^bb0(%a: f32, %o: f32):
  %t = arith.addf %a, %o : f32
  linalg.yield %t : f32
} -> tensor<8x56x56xf32>
%p_mid = linalg.generic {indexing_maps = [#nchw, #nhw, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%p_x, %p_sum : tensor<8x96x56x56xf32>, tensor<8x56x56xf32>) outs(%p_ie : tensor<8x96x56x56xf32>) {
^bb0(%a: f32, %m: f32, %o: f32):
  %d = arith.divf %m, %width : f32
  %t = arith.subf %a, %d : f32
  linalg.yield %t : f32
} -> tensor<8x96x56x56xf32>
%p_squares = linalg.generic {indexing_maps = [#nchw, #nhw],
    iterator_types = ["parallel", "reduction", "parallel", "parallel"]}
    ins(%p_mid : tensor<8x96x56x56xf32>) outs(%p_pi : tensor<8x56x56xf32>) {
^bb0(%a: f32, %o: f32):
  %q = arith.mulf %a, %a : f32
  %t = arith.addf %q, %o : f32
  linalg.yield %t : f32
} -> tensor<8x56x56xf32>
%p_n = linalg.generic {indexing_maps = [#nchw, #nhw, #c, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%p_mid, %p_squares, %p_s : tensor<8x96x56x56xf32>, tensor<8x56x56xf32>, tensor<96xf32>) outs(%p_ie : tensor<8x96x56x56xf32>) {
^bb0(%a: f32, %v: f32, %g: f32, %o: f32):
  %e = arith.addf %v, %epsilon : f32
  %r = math.rsqrt %e : f32
  %n = arith.mulf %a, %r : f32
  %t = arith.mulf %n, %g : f32
  linalg.yield %t : f32
} -> tensor<8x96x56x56xf32>
%p_v = tensor.extract %p_n[%c0, %c0, %c0, %c0] : tensor<8x96x56x56xf32>
%p_oe = tensor.empty() : tensor<64x128xf32>
%out = linalg.generic {indexing_maps = [#xy, #xy], iterator_types = ["parallel", "parallel"]}
    ins(%in : tensor<64x128xf32>) outs(%p_oe : tensor<64x128xf32>) {
^bb0(%a: f32, %o: f32):
  %s = arith.addf %a, %p_v : f32
  linalg.yield %s : f32
} -> tensor<64x128xf32>

%BLOCK_re = tensor.empty() : tensor<64xf32>
%BLOCK_ri = linalg.fill ins(%zero : f32) outs(%BLOCK_re : tensor<64xf32>) -> tensor<64xf32>
%BLOCK_sum = linalg.generic {indexing_maps = [#xy, #x], iterator_types = ["parallel", "reduction"]}
    ins(%in : tensor<64x128xf32>) outs(%BLOCK_ri : tensor<64xf32>) {
^bb0(%a: f32, %o: f32):
  %q = arith.mulf %a, %a : f32
  %s = arith.addf %q, %o : f32
  linalg.yield %s : f32
} -> tensor<64xf32>
%BLOCK_ne = tensor.empty() : tensor<64x128xf32>
%BLOCK_norm = linalg.generic {indexing_maps = [#xy, #x, #xy], iterator_types = ["parallel", "parallel"]}
    ins(%in, %BLOCK_sum : tensor<64x128xf32>, tensor<64xf32>) outs(%BLOCK_ne : tensor<64x128xf32>) {
^bb0(%a: f32, %b: f32, %o: f32):
  %m = arith.divf %b, %width : f32
  %e = arith.addf %m, %epsilon : f32
  %r = math.rsqrt %e : f32
  %s = arith.mulf %a, %r : f32
  linalg.yield %s : f32
} -> tensor<64x128xf32>
%BLOCK_he = tensor.empty() : tensor<64x256xf32>
%BLOCK_hi = linalg.fill ins(%zero : f32) outs(%BLOCK_he : tensor<64x256xf32>) -> tensor<64x256xf32>
%BLOCK_h = linalg.matmul ins(%BLOCK_norm, %BLOCK_w1 : tensor<64x128xf32>, tensor<128x256xf32>) outs(%BLOCK_hi : tensor<64x256xf32>) -> tensor<64x256xf32>
%BLOCK_g = linalg.generic {indexing_maps = [#xy, #xy], iterator_types = ["parallel", "parallel"]}
    ins(%BLOCK_h : tensor<64x256xf32>) outs(%BLOCK_he : tensor<64x256xf32>) {
^bb0(%a: f32, %o: f32):
  %n = arith.negf %a : f32
  %v = math.exp %n : f32
  %d = arith.addf %v, %one : f32
  %s = arith.divf %a, %d : f32
  linalg.yield %s : f32
} -> tensor<64x256xf32>
%BLOCK_yi = linalg.fill ins(%zero : f32) outs(%BLOCK_ne : tensor<64x128xf32>) -> tensor<64x128xf32>
%BLOCK_y = linalg.matmul ins(%BLOCK_g, %BLOCK_w2 : tensor<64x256xf32>, tensor<256x128xf32>) outs(%BLOCK_yi : tensor<64x128xf32>) -> tensor<64x128xf32>
%BLOCK = linalg.generic {indexing_maps = [#xy, #xy, #xy], iterator_types = ["parallel", "parallel"]}
    ins(%in, %BLOCK_y : tensor<64x128xf32>, tensor<64x128xf32>) outs(%BLOCK_ne : tensor<64x128xf32>) {
^bb0(%a: f32, %b: f32, %o: f32):
  %s = arith.addf %a, %b : f32
  linalg.yield %s : f32
} -> tensor<64x128xf32>

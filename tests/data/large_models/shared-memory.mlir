%p_e = tensor.empty() : tensor<4096x4096xf32>
%p_i = linalg.fill ins(%zero : f32) outs(%p_e : tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
%p_c = linalg.matmul ins(%p_a, %p_b : tensor<4096x4096xf32>, tensor<4096x4096xf32>) outs(%p_i : tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
%p_v = tensor.extract %p_c[%c0, %c0] : tensor<4096x4096xf32>
%p_oe = tensor.empty() : tensor<64x128xf32>
%out = linalg.generic {indexing_maps = [#xy, #xy], iterator_types = ["parallel", "parallel"]}
    ins(%in : tensor<64x128xf32>) outs(%p_oe : tensor<64x128xf32>) {
^bb0(%a: f32, %o: f32):
  %s = arith.addf %a, %p_v : f32
  linalg.yield %s : f32
} -> tensor<64x128xf32>

%p_z = complex.constant [0.0 : f32, 0.0 : f32] : complex<f32>
%p_e = tensor.empty() : tensor<64x64xcomplex<f32>>
%p_i = linalg.fill ins(%p_z : complex<f32>) outs(%p_e : tensor<64x64xcomplex<f32>>) -> tensor<64x64xcomplex<f32>>
%p_c = linalg.matmul ins(%p_a, %p_b : tensor<64x64xcomplex<f32>>, tensor<64x64xcomplex<f32>>) outs(%p_i : tensor<64x64xcomplex<f32>>) -> tensor<64x64xcomplex<f32>>
%p_y = tensor.extract %p_c[%c0, %c0] : tensor<64x64xcomplex<f32>>
%p_v = complex.re %p_y : complex<f32>
%p_oe = tensor.empty() : tensor<64x128xf32>
%out = linalg.generic {indexing_maps = [#xy, #xy], iterator_types = ["parallel", "parallel"]}
    ins(%in : tensor<64x128xf32>) outs(%p_oe : tensor<64x128xf32>) {
^bb0(%a: f32, %o: f32):
  %s = arith.addf %a, %p_v : f32
  linalg.yield %s : f32
} -> tensor<64x128xf32>

// A matmul of complex numbers, as Fourier transforms by matrix end in.
func.func @matmul(%a: tensor<64x64xcomplex<f32>>, %b: tensor<64x64xcomplex<f32>>) -> tensor<64x64xcomplex<f32>> {
  %zero = complex.constant [0.0 : f32, 0.0 : f32] : complex<f32>
  %empty = tensor.empty() : tensor<64x64xcomplex<f32>>
  %init = linalg.fill ins(%zero : complex<f32>) outs(%empty : tensor<64x64xcomplex<f32>>) -> tensor<64x64xcomplex<f32>>
  %c = linalg.matmul ins(%a, %b : tensor<64x64xcomplex<f32>>, tensor<64x64xcomplex<f32>>)
                     outs(%init : tensor<64x64xcomplex<f32>>) -> tensor<64x64xcomplex<f32>>
  return %c : tensor<64x64xcomplex<f32>>
}

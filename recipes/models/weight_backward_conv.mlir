// The gradient of a 3x3 filter, NHWC: the image correlated with the gradient of the output, summed over
// batch and positions. 13 input channels suit no tile, so this has to be padded.
func.func @weight_backward(%image: tensor<2x35x35x13xbf16>, %gradient: tensor<2x33x33x64xbf16>)
    -> tensor<64x3x3x13xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<64x3x3x13xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<64x3x3x13xf32>) -> tensor<64x3x3x13xf32>
  %result = linalg.generic {indexing_maps = [
      affine_map<(f, y, x, c, n, h, w) -> (n, h + y, w + x, c)>,
      affine_map<(f, y, x, c, n, h, w) -> (n, h, w, f)>,
      affine_map<(f, y, x, c, n, h, w) -> (f, y, x, c)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%image, %gradient : tensor<2x35x35x13xbf16>, tensor<2x33x33x64xbf16>)
      outs(%init : tensor<64x3x3x13xf32>) {
  ^bb0(%i: bf16, %g: bf16, %sum: f32):
    %i32 = arith.extf %i : bf16 to f32
    %g32 = arith.extf %g : bf16 to f32
    %product = arith.mulf %i32, %g32 : f32
    %next = arith.addf %product, %sum : f32
    linalg.yield %next : f32
  } -> tensor<64x3x3x13xf32>
  return %result : tensor<64x3x3x13xf32>
}

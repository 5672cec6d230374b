// Layer norm over the channels of an NCHW image: the reduced dimension is not the innermost one.
#image   = affine_map<(b, c, h, w) -> (b, c, h, w)>
#pixel   = affine_map<(b, c, h, w) -> (b, h, w)>
#channel = affine_map<(b, c, h, w) -> (c)>
#each    = affine_map<(b, h, w) -> (b, h, w)>
func.func @layer_norm(%x: tensor<8x96x56x56xf32>, %gamma: tensor<96xf32>, %beta: tensor<96xf32>) -> tensor<8x96x56x56xf32> {
  %zero = arith.constant 0.0 : f32
  %channels = arith.constant 96.0 : f32
  %epsilon = arith.constant 1.0e-6 : f32
  %pixel_empty = tensor.empty() : tensor<8x56x56xf32>
  %image_empty = tensor.empty() : tensor<8x96x56x56xf32>
  %pixel_zero = linalg.fill ins(%zero : f32) outs(%pixel_empty : tensor<8x56x56xf32>) -> tensor<8x56x56xf32>

  %sum = linalg.generic {indexing_maps = [#image, #pixel],
      iterator_types = ["parallel", "reduction", "parallel", "parallel"]}
      ins(%x : tensor<8x96x56x56xf32>) outs(%pixel_zero : tensor<8x56x56xf32>) {
  ^bb0(%a: f32, %s: f32):
    %t = arith.addf %a, %s : f32
    linalg.yield %t : f32
  } -> tensor<8x56x56xf32>
  %mean = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%sum : tensor<8x56x56xf32>) outs(%pixel_empty : tensor<8x56x56xf32>) {
  ^bb0(%s: f32, %unused: f32):
    %t = arith.divf %s, %channels : f32
    linalg.yield %t : f32
  } -> tensor<8x56x56xf32>
  %centred = linalg.generic {indexing_maps = [#image, #pixel, #image],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x, %mean : tensor<8x96x56x56xf32>, tensor<8x56x56xf32>) outs(%image_empty : tensor<8x96x56x56xf32>) {
  ^bb0(%a: f32, %m: f32, %unused: f32):
    %t = arith.subf %a, %m : f32
    linalg.yield %t : f32
  } -> tensor<8x96x56x56xf32>
  %squares = linalg.generic {indexing_maps = [#image, #pixel],
      iterator_types = ["parallel", "reduction", "parallel", "parallel"]}
      ins(%centred : tensor<8x96x56x56xf32>) outs(%pixel_zero : tensor<8x56x56xf32>) {
  ^bb0(%a: f32, %s: f32):
    %square = arith.mulf %a, %a : f32
    %t = arith.addf %square, %s : f32
    linalg.yield %t : f32
  } -> tensor<8x56x56xf32>
  %result = linalg.generic {indexing_maps = [#image, #pixel, #channel, #channel, #image],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%centred, %squares, %gamma, %beta : tensor<8x96x56x56xf32>, tensor<8x56x56xf32>, tensor<96xf32>, tensor<96xf32>)
      outs(%image_empty : tensor<8x96x56x56xf32>) {
  ^bb0(%a: f32, %s: f32, %g: f32, %b: f32, %unused: f32):
    %variance = arith.divf %s, %channels : f32
    %stable = arith.addf %variance, %epsilon : f32
    %inverse = math.rsqrt %stable : f32
    %normal = arith.mulf %a, %inverse : f32
    %scaled = arith.mulf %normal, %g : f32
    %shifted = arith.addf %scaled, %b : f32
    linalg.yield %shifted : f32
  } -> tensor<8x96x56x56xf32>
  return %result : tensor<8x96x56x56xf32>
}

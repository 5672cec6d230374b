// Weight-only quantisation, one token: 4-bit weights in groups of 128 get their zero point and scale back,
// then multiply one activation row. 4096 rows of 32 groups.
#weight = affine_map<(n, g, k) -> (n, g, k)>
#group  = affine_map<(n, g, k) -> (n, g)>
func.func @matvec(%activation: tensor<1x32x128xf16>, %weight: tensor<4096x32x128xi4>,
                  %scale: tensor<4096x32xf16>, %zero_point: tensor<4096x32xf16>) -> tensor<1x4096xf16> {
  %zero = arith.constant 0.0 : f16
  %full_empty = tensor.empty() : tensor<4096x32x128xf16>
  %full = linalg.generic {indexing_maps = [#weight, #group, #group, #weight],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%weight, %scale, %zero_point : tensor<4096x32x128xi4>, tensor<4096x32xf16>, tensor<4096x32xf16>)
      outs(%full_empty : tensor<4096x32x128xf16>) {
  ^bb0(%w: i4, %s: f16, %z: f16, %unused: f16):
    %wide = arith.extui %w : i4 to i32
    %real = arith.uitofp %wide : i32 to f16
    %centred = arith.subf %real, %z : f16
    %scaled = arith.mulf %centred, %s : f16
    linalg.yield %scaled : f16
  } -> tensor<4096x32x128xf16>
  %empty = tensor.empty() : tensor<1x4096xf16>
  %init = linalg.fill ins(%zero : f16) outs(%empty : tensor<1x4096xf16>) -> tensor<1x4096xf16>
  %result = linalg.generic {indexing_maps = [
      affine_map<(m, n, g, k) -> (m, g, k)>, affine_map<(m, n, g, k) -> (n, g, k)>, affine_map<(m, n, g, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%activation, %full : tensor<1x32x128xf16>, tensor<4096x32x128xf16>) outs(%init : tensor<1x4096xf16>) {
  ^bb0(%x: f16, %w: f16, %sum: f16):
    %product = arith.mulf %x, %w : f16
    %next = arith.addf %product, %sum : f16
    linalg.yield %next : f16
  } -> tensor<1x4096xf16>
  return %result : tensor<1x4096xf16>
}

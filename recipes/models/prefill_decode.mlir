// A small layer on all tokens of a prompt (prefill), and on one new token with what was kept of the others (decode).
func.func @prefill(%tokens: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %weights = arith.constant dense<0.125> : tensor<64x64xf32>
  %count = tensor.dim %tokens, %c0 : tensor<?x64xf32>
  %empty = tensor.empty(%count) : tensor<?x64xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x64xf32>) -> tensor<?x64xf32>
  %product = linalg.matmul ins(%tokens, %weights : tensor<?x64xf32>, tensor<64x64xf32>)
    outs(%start : tensor<?x64xf32>) -> tensor<?x64xf32>
  %result = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]
  } ins(%product : tensor<?x64xf32>) outs(%empty : tensor<?x64xf32>) {
  ^bb0(%value: f32, %unused: f32):
    %positive = arith.maximumf %value, %zero : f32
    linalg.yield %positive : f32
  } -> tensor<?x64xf32>
  return %result : tensor<?x64xf32>
}

func.func @decode(%token: tensor<64xf32>, %kept: tensor<?x64xf32>) -> tensor<64xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %count = tensor.dim %kept, %c0 : tensor<?x64xf32>
  %empty_scores = tensor.empty(%count) : tensor<?xf32>
  %no_scores = linalg.fill ins(%zero : f32) outs(%empty_scores : tensor<?xf32>) -> tensor<?xf32>
  %scores = linalg.matvec ins(%kept, %token : tensor<?x64xf32>, tensor<64xf32>)
    outs(%no_scores : tensor<?xf32>) -> tensor<?xf32>
  %empty = tensor.empty() : tensor<64xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<64xf32>) -> tensor<64xf32>
  %result = linalg.vecmat ins(%scores, %kept : tensor<?xf32>, tensor<?x64xf32>)
    outs(%start : tensor<64xf32>) -> tensor<64xf32>
  return %result : tensor<64xf32>
}

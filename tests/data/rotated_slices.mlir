func.func private @shift(%x: tensor<3x32x64x160xf32>) -> tensor<3x32x64x160xf32> {
  %a = tensor.extract_slice %x[0, 0, 0, 0] [3, 32, 64, 80] [1, 1, 1, 1] : tensor<3x32x64x160xf32> to tensor<3x32x64x80xf32>
  %b = tensor.insert_slice %a into %x[0, 0, 0, 80] [3, 32, 64, 80] [1, 1, 1, 1] : tensor<3x32x64x80xf32> into tensor<3x32x64x160xf32>
  return %b : tensor<3x32x64x160xf32>
}
func.func @rotate(%x: tensor<3x32x64x160xf32>) -> (tensor<3x2048x160xf32>, tensor<3x34x64x160xf32>) {
  %zero = arith.constant 0.0 : f32
  %b = call @shift(%x) : (tensor<3x32x64x160xf32>) -> tensor<3x32x64x160xf32>
  %c = tensor.collapse_shape %b [[0], [1, 2], [3]] : tensor<3x32x64x160xf32> into tensor<3x2048x160xf32>
  %d = tensor.pad %b low[0, 1, 0, 0] high[0, 1, 0, 0] {
  ^bb0(%0: index, %1: index, %2: index, %3: index):
    tensor.yield %zero : f32
  } : tensor<3x32x64x160xf32> to tensor<3x34x64x160xf32>
  return %c, %d : tensor<3x2048x160xf32>, tensor<3x34x64x160xf32>
}

module {
  func.func @softmax(%arg0: tensor<64x4x72x1xf32>) -> tensor<64x4x72x1xf32> {
    %0 = tensor.empty() : tensor<64x4x72x1xf32>
    %1 = linalg.softmax dimension(3) ins(%arg0 : tensor<64x4x72x1xf32>) outs(%0 : tensor<64x4x72x1xf32>) -> tensor<64x4x72x1xf32>
    return %1 : tensor<64x4x72x1xf32>
  }
}

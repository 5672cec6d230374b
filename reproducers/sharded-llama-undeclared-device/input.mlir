module {
  func.func @decode(%arg0: tensor<1x1xf32> {iree.abi.affinity = #hal.device.promise<@__device_7>}, %arg1: tensor<1x1xf32>) -> tensor<1x1xf32> {
    %0 = tensor.empty() : tensor<1x1xf32>
    %1 = linalg.matmul ins(%arg1, %arg0 : tensor<1x1xf32>, tensor<1x1xf32>) outs(%0 : tensor<1x1xf32>) -> tensor<1x1xf32>
    return %1 : tensor<1x1xf32>
  }
}

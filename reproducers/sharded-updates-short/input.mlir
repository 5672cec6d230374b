module {
  func.func @decode(%arg0: tensor<2x1xf32> {iree.abi.affinity = #hal.device.promise<@__device_0>}, %arg1: tensor<1x1xf32>, %arg2: index) -> (tensor<2x1xf32> {iree.abi.affinity = #hal.device.promise<@__device_1>}) {
    %c0 = arith.constant 0 : index
    %0 = flow.tensor.update %arg1, %arg0[%arg2, %c0] : tensor<1x1xf32> -> %arg0 as tensor<2x1xf32>
    %1 = flow.tensor.update %arg1, %0[%arg2, %c0] : tensor<1x1xf32> -> %0 as tensor<2x1xf32>
    %2 = flow.tensor.transfer %1 : tensor<2x1xf32> to #hal.device.promise<@__device_1>
    return %2 : tensor<2x1xf32>
  }
}

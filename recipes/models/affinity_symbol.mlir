// The result is said to live on a device that is named directly instead of promised. Nobody declares a
// fourth device: only @__device_0 and @__device_1 exist.
func.func @double(%x: tensor<4x8xf32>)
    -> (tensor<4x8xf32> {iree.abi.affinity = #hal.device.affinity<@__device_3>}) {
  %y = arith.addf %x, %x : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

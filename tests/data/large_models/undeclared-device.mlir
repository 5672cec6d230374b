%p_t = flow.tensor.transfer %in : tensor<64x128xf32> to #hal.device.promise<@__device_7>
%p_e = tensor.empty() : tensor<64x128xf32>
%p_d = linalg.generic {indexing_maps = [#xy, #xy], iterator_types = ["parallel", "parallel"]}
    ins(%p_t : tensor<64x128xf32>) outs(%p_e : tensor<64x128xf32>) {
^bb0(%a: f32, %o: f32):
  %s = arith.mulf %a, %a : f32
  linalg.yield %s : f32
} -> tensor<64x128xf32>
%out = flow.tensor.transfer %p_d : tensor<64x128xf32> to #hal.device.promise<@__device_0>

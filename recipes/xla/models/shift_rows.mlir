module @shift_down {
  func.func public @main(%x: tensor<4x4xi32>) -> tensor<1x4x4xi32> {
    %one = stablehlo.constant dense<1> : tensor<4x4xi32>
    %row = stablehlo.constant dense<1> : tensor<i32>
    %col = stablehlo.constant dense<0> : tensor<i32>
    %base = stablehlo.add %x, %one : tensor<4x4xi32>
    %head = stablehlo.slice %base [0:3, 0:4] : (tensor<4x4xi32>) -> tensor<3x4xi32>
    %moved = stablehlo.dynamic_update_slice %base, %head, %row, %col : (tensor<4x4xi32>, tensor<3x4xi32>, tensor<i32>, tensor<i32>) -> tensor<4x4xi32>
    %out = stablehlo.reshape %moved : (tensor<4x4xi32>) -> tensor<1x4x4xi32>
    return %out : tensor<1x4x4xi32>
  }
}

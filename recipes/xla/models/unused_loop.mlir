module @jit_settle {
  func.func public @main() -> (tensor<3xi32>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %1:2 = stablehlo.while(%iterArg = %0, %iterArg_0 = %0) : tensor<3xi32>, tensor<3xi32>
    cond {
      %2 = stablehlo.compare  NE, %iterArg_0, %iterArg,  SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
      %c_1 = stablehlo.constant dense<false> : tensor<i1>
      %3 = stablehlo.reduce(%2 init: %c_1) applies stablehlo.or across dimensions = [0] : (tensor<3xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %3 : tensor<i1>
    } do {
      %c_1 = stablehlo.constant dense<0> : tensor<i32>
      %c_2 = stablehlo.constant dense<0> : tensor<i32>
      %c_3 = stablehlo.constant dense<0> : tensor<i32>
      %2:3 = stablehlo.while(%iterArg_5 = %c_1, %iterArg_6 = %c_3, %iterArg_7 = %c_2) : tensor<i32>, tensor<i32>, tensor<i32>
      cond {
        %c_8 = stablehlo.constant dense<5> : tensor<i32>
        %4 = stablehlo.compare  LT, %iterArg_6, %c_8,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %4 : tensor<i1>
      } do {
        %4 = func.call @closed_call(%iterArg_5, %iterArg_7) : (tensor<i32>, tensor<i32>) -> tensor<i32>
        %c_8 = stablehlo.constant dense<1> : tensor<i32>
        %5 = stablehlo.add %iterArg_6, %c_8 : tensor<i32>
        stablehlo.return %iterArg_5, %5, %4 : tensor<i32>, tensor<i32>, tensor<i32>
      }
      %c_4 = stablehlo.constant dense<0> : tensor<i32>
      %3 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i32>) -> tensor<3xi32>
      stablehlo.return %iterArg, %3 : tensor<3xi32>, tensor<3xi32>
    }
    return %1#1 : tensor<3xi32>
  }
  func.func private @closed_call(%arg0: tensor<i32>, %arg1: tensor<i32>) -> tensor<i32> {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg1, %c : tensor<i32>
    return %0 : tensor<i32>
  }
}


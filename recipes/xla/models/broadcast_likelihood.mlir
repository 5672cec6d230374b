module @jit_likelihood {
  func.func public @main(%arg0: tensor<4x3x5xf32>, %arg1: tensor<4x3x5x6x6x6x6x6xf32>) -> (tensor<4x3x6x6x6x6x6xf32>) {
    %0 = stablehlo.reshape %arg0 : (tensor<4x3x5xf32>) -> tensor<4x3x5x1x1x1x1x1xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2, 3, 4, 5, 6, 7] : (tensor<4x3x5x1x1x1x1x1xf32>) -> tensor<4x3x5x6x6x6x6x6xf32>
    %2 = stablehlo.multiply %1, %arg1 : tensor<4x3x5x6x6x6x6x6xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %3 = stablehlo.reduce(%2 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<4x3x5x6x6x6x6x6xf32>, tensor<f32>) -> tensor<4x3x6x6x6x6x6xf32>
    %cst_0 = stablehlo.constant dense<1.000000e-16> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4x3x6x6x6x6x6xf32>
    %5 = stablehlo.maximum %3, %4 : tensor<4x3x6x6x6x6x6xf32>
    %6 = stablehlo.log %5 : tensor<4x3x6x6x6x6x6xf32>
    return %6 : tensor<4x3x6x6x6x6x6xf32>
  }
}


module @jit_energy {
  func.func public @main(%arg0: tensor<3x3xf32>, %arg1: tensor<40000x3xf32>) -> (tensor<40000xf32>) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x3xf32>, tensor<40000x3xf32>) -> tensor<3x40000xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<3x40000xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [0] : (tensor<3x40000xf32>, tensor<f32>) -> tensor<40000xf32>
    return %2 : tensor<40000xf32>
  }
}


// The strain energy of 40,000 points: a product with a 3 by 3 matrix, squared and summed. All points are multiples of one vector,
// so that each energy, divided by the square of its factor, is the same number.
module @energy {
  func.func public @main(%matrix: tensor<3x3xf32>) -> tensor<40000xf32> {
    %number = stablehlo.iota dim = 0 : tensor<40000xf32>
    %seven = stablehlo.constant dense<7.0> : tensor<40000xf32>
    %one = stablehlo.constant dense<1.0> : tensor<40000xf32>
    %rest = stablehlo.remainder %number, %seven : tensor<40000xf32>
    %factor = stablehlo.add %rest, %one : tensor<40000xf32>
    %points = stablehlo.broadcast_in_dim %factor, dims = [0] : (tensor<40000xf32>) -> tensor<40000x3xf32>
    %product = stablehlo.dot_general %matrix, %points, contracting_dims = [1] x [1] : (tensor<3x3xf32>, tensor<40000x3xf32>) -> tensor<3x40000xf32>
    %square = stablehlo.multiply %product, %product : tensor<3x40000xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %energy = stablehlo.reduce(%square init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<3x40000xf32>, tensor<f32>) -> tensor<40000xf32>
    %area = stablehlo.multiply %factor, %factor : tensor<40000xf32>
    %result = stablehlo.divide %energy, %area : tensor<40000xf32>
    return %result : tensor<40000xf32>
  }
}

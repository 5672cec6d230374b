module {
  func.func @f(%a: tensor<4xf16>) -> tensor<4xf16> {
    return %a : tensor<4xf16>
  }
}

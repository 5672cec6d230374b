module {
  func.func @project(%arg0: tensor<16x16xf16>, %arg1: tensor<16x16xf16>, %arg2: tensor<16x16xf16>) -> tensor<16x16xf16> {
    %0 = linalg.matmul ins(%arg0, %arg1 : tensor<16x16xf16>, tensor<16x16xf16>) outs(%arg2 : tensor<16x16xf16>) -> tensor<16x16xf16>
    return %0 : tensor<16x16xf16>
  }
}

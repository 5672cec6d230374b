// An edit that went wrong: %square is used above the line that defines it.
func.func @swapped(%x: tensor<4xf32>) -> tensor<4xf32> {
  %sum = arith.addf %x, %square : tensor<4xf32>
  %square = arith.mulf %x, %x : tensor<4xf32>
  return %sum : tensor<4xf32>
}

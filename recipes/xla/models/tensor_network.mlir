module @jit_amplitude {
  func.func public @main(%arg0: tensor<3x5x2x2x2x2xf32>) -> (tensor<f32>) {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %1 = stablehlo.slice %arg0 [0:1, 0:1, 0:2, 0:2, 0:2, 0:2] : (tensor<3x5x2x2x2x2xf32>) -> tensor<1x1x2x2x2x2xf32>
    %2 = stablehlo.reshape %1 : (tensor<1x1x2x2x2x2xf32>) -> tensor<2x2x2x2xf32>
    %3 = stablehlo.dot_general %2, %0, contracting_dims = [2, 3] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x2x2x2xf32>, tensor<2x2x2x2x2x2x2x2x2x2xf32>) -> tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %4 = stablehlo.slice %arg0 [0:1, 1:2, 0:2, 0:2, 0:2, 0:2] : (tensor<3x5x2x2x2x2xf32>) -> tensor<1x1x2x2x2x2xf32>
    %5 = stablehlo.reshape %4 : (tensor<1x1x2x2x2x2xf32>) -> tensor<2x2x2x2xf32>
    %6 = stablehlo.dot_general %5, %3, contracting_dims = [2, 3] x [2, 3], precision = [DEFAULT, DEFAULT] : (tensor<2x2x2x2xf32>, tensor<2x2x2x2x2x2x2x2x2x2xf32>) -> tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %7 = stablehlo.transpose %6, dims = [2, 3, 0, 1, 4, 5, 6, 7, 8, 9] : (tensor<2x2x2x2x2x2x2x2x2x2xf32>) -> tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %8 = stablehlo.slice %arg0 [0:1, 2:3, 0:2, 0:2, 0:2, 0:2] : (tensor<3x5x2x2x2x2xf32>) -> tensor<1x1x2x2x2x2xf32>
    %9 = stablehlo.reshape %8 : (tensor<1x1x2x2x2x2xf32>) -> tensor<2x2x2x2xf32>
    %10 = stablehlo.dot_general %9, %7, contracting_dims = [2, 3] x [4, 5], precision = [DEFAULT, DEFAULT] : (tensor<2x2x2x2xf32>, tensor<2x2x2x2x2x2x2x2x2x2xf32>) -> tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %11 = stablehlo.transpose %10, dims = [2, 3, 4, 5, 0, 1, 6, 7, 8, 9] : (tensor<2x2x2x2x2x2x2x2x2x2xf32>) -> tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %12 = stablehlo.slice %arg0 [0:1, 3:4, 0:2, 0:2, 0:2, 0:2] : (tensor<3x5x2x2x2x2xf32>) -> tensor<1x1x2x2x2x2xf32>
    %13 = stablehlo.reshape %12 : (tensor<1x1x2x2x2x2xf32>) -> tensor<2x2x2x2xf32>
    %14 = stablehlo.dot_general %13, %11, contracting_dims = [2, 3] x [6, 7], precision = [DEFAULT, DEFAULT] : (tensor<2x2x2x2xf32>, tensor<2x2x2x2x2x2x2x2x2x2xf32>) -> tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %15 = stablehlo.transpose %14, dims = [2, 3, 4, 5, 6, 7, 0, 1, 8, 9] : (tensor<2x2x2x2x2x2x2x2x2x2xf32>) -> tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %16 = stablehlo.slice %arg0 [0:1, 4:5, 0:2, 0:2, 0:2, 0:2] : (tensor<3x5x2x2x2x2xf32>) -> tensor<1x1x2x2x2x2xf32>
    %17 = stablehlo.reshape %16 : (tensor<1x1x2x2x2x2xf32>) -> tensor<2x2x2x2xf32>
    %18 = stablehlo.dot_general %17, %15, contracting_dims = [2, 3] x [8, 9], precision = [DEFAULT, DEFAULT] : (tensor<2x2x2x2xf32>, tensor<2x2x2x2x2x2x2x2x2x2xf32>) -> tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %19 = stablehlo.transpose %18, dims = [2, 3, 4, 5, 6, 7, 8, 9, 0, 1] : (tensor<2x2x2x2x2x2x2x2x2x2xf32>) -> tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %20 = stablehlo.slice %arg0 [1:2, 0:1, 0:2, 0:2, 0:2, 0:2] : (tensor<3x5x2x2x2x2xf32>) -> tensor<1x1x2x2x2x2xf32>
    %21 = stablehlo.reshape %20 : (tensor<1x1x2x2x2x2xf32>) -> tensor<2x2x2x2xf32>
    %22 = stablehlo.dot_general %21, %19, contracting_dims = [2, 3] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<2x2x2x2xf32>, tensor<2x2x2x2x2x2x2x2x2x2xf32>) -> tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %23 = stablehlo.transpose %22, dims = [2, 0, 1, 3, 4, 5, 6, 7, 8, 9] : (tensor<2x2x2x2x2x2x2x2x2x2xf32>) -> tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %24 = stablehlo.slice %arg0 [1:2, 1:2, 0:2, 0:2, 0:2, 0:2] : (tensor<3x5x2x2x2x2xf32>) -> tensor<1x1x2x2x2x2xf32>
    %25 = stablehlo.reshape %24 : (tensor<1x1x2x2x2x2xf32>) -> tensor<2x2x2x2xf32>
    %26 = stablehlo.dot_general %25, %23, contracting_dims = [2, 3] x [3, 4], precision = [DEFAULT, DEFAULT] : (tensor<2x2x2x2xf32>, tensor<2x2x2x2x2x2x2x2x2x2xf32>) -> tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %27 = stablehlo.transpose %26, dims = [2, 3, 4, 0, 1, 5, 6, 7, 8, 9] : (tensor<2x2x2x2x2x2x2x2x2x2xf32>) -> tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %28 = stablehlo.slice %arg0 [1:2, 2:3, 0:2, 0:2, 0:2, 0:2] : (tensor<3x5x2x2x2x2xf32>) -> tensor<1x1x2x2x2x2xf32>
    %29 = stablehlo.reshape %28 : (tensor<1x1x2x2x2x2xf32>) -> tensor<2x2x2x2xf32>
    %30 = stablehlo.dot_general %29, %27, contracting_dims = [2, 3] x [5, 6], precision = [DEFAULT, DEFAULT] : (tensor<2x2x2x2xf32>, tensor<2x2x2x2x2x2x2x2x2x2xf32>) -> tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %31 = stablehlo.transpose %30, dims = [2, 3, 4, 5, 6, 0, 1, 7, 8, 9] : (tensor<2x2x2x2x2x2x2x2x2x2xf32>) -> tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %32 = stablehlo.slice %arg0 [1:2, 3:4, 0:2, 0:2, 0:2, 0:2] : (tensor<3x5x2x2x2x2xf32>) -> tensor<1x1x2x2x2x2xf32>
    %33 = stablehlo.reshape %32 : (tensor<1x1x2x2x2x2xf32>) -> tensor<2x2x2x2xf32>
    %34 = stablehlo.dot_general %33, %31, contracting_dims = [2, 3] x [7, 8], precision = [DEFAULT, DEFAULT] : (tensor<2x2x2x2xf32>, tensor<2x2x2x2x2x2x2x2x2x2xf32>) -> tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %35 = stablehlo.transpose %34, dims = [2, 3, 4, 5, 6, 7, 8, 0, 1, 9] : (tensor<2x2x2x2x2x2x2x2x2x2xf32>) -> tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %36 = stablehlo.slice %arg0 [1:2, 4:5, 0:2, 0:2, 0:2, 0:2] : (tensor<3x5x2x2x2x2xf32>) -> tensor<1x1x2x2x2x2xf32>
    %37 = stablehlo.reshape %36 : (tensor<1x1x2x2x2x2xf32>) -> tensor<2x2x2x2xf32>
    %38 = stablehlo.dot_general %37, %35, contracting_dims = [2, 3] x [9, 0], precision = [DEFAULT, DEFAULT] : (tensor<2x2x2x2xf32>, tensor<2x2x2x2x2x2x2x2x2x2xf32>) -> tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %39 = stablehlo.transpose %38, dims = [1, 2, 3, 4, 5, 6, 7, 8, 9, 0] : (tensor<2x2x2x2x2x2x2x2x2x2xf32>) -> tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %40 = stablehlo.slice %arg0 [2:3, 0:1, 0:2, 0:2, 0:2, 0:2] : (tensor<3x5x2x2x2x2xf32>) -> tensor<1x1x2x2x2x2xf32>
    %41 = stablehlo.reshape %40 : (tensor<1x1x2x2x2x2xf32>) -> tensor<2x2x2x2xf32>
    %42 = stablehlo.dot_general %41, %39, contracting_dims = [2, 3] x [2, 3], precision = [DEFAULT, DEFAULT] : (tensor<2x2x2x2xf32>, tensor<2x2x2x2x2x2x2x2x2x2xf32>) -> tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %43 = stablehlo.transpose %42, dims = [2, 3, 0, 1, 4, 5, 6, 7, 8, 9] : (tensor<2x2x2x2x2x2x2x2x2x2xf32>) -> tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %44 = stablehlo.slice %arg0 [2:3, 1:2, 0:2, 0:2, 0:2, 0:2] : (tensor<3x5x2x2x2x2xf32>) -> tensor<1x1x2x2x2x2xf32>
    %45 = stablehlo.reshape %44 : (tensor<1x1x2x2x2x2xf32>) -> tensor<2x2x2x2xf32>
    %46 = stablehlo.dot_general %45, %43, contracting_dims = [2, 3] x [4, 5], precision = [DEFAULT, DEFAULT] : (tensor<2x2x2x2xf32>, tensor<2x2x2x2x2x2x2x2x2x2xf32>) -> tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %47 = stablehlo.transpose %46, dims = [2, 3, 4, 5, 0, 1, 6, 7, 8, 9] : (tensor<2x2x2x2x2x2x2x2x2x2xf32>) -> tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %48 = stablehlo.slice %arg0 [2:3, 2:3, 0:2, 0:2, 0:2, 0:2] : (tensor<3x5x2x2x2x2xf32>) -> tensor<1x1x2x2x2x2xf32>
    %49 = stablehlo.reshape %48 : (tensor<1x1x2x2x2x2xf32>) -> tensor<2x2x2x2xf32>
    %50 = stablehlo.dot_general %49, %47, contracting_dims = [2, 3] x [6, 7], precision = [DEFAULT, DEFAULT] : (tensor<2x2x2x2xf32>, tensor<2x2x2x2x2x2x2x2x2x2xf32>) -> tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %51 = stablehlo.transpose %50, dims = [2, 3, 4, 5, 6, 7, 0, 1, 8, 9] : (tensor<2x2x2x2x2x2x2x2x2x2xf32>) -> tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %52 = stablehlo.slice %arg0 [2:3, 3:4, 0:2, 0:2, 0:2, 0:2] : (tensor<3x5x2x2x2x2xf32>) -> tensor<1x1x2x2x2x2xf32>
    %53 = stablehlo.reshape %52 : (tensor<1x1x2x2x2x2xf32>) -> tensor<2x2x2x2xf32>
    %54 = stablehlo.dot_general %53, %51, contracting_dims = [2, 3] x [8, 9], precision = [DEFAULT, DEFAULT] : (tensor<2x2x2x2xf32>, tensor<2x2x2x2x2x2x2x2x2x2xf32>) -> tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %55 = stablehlo.transpose %54, dims = [2, 3, 4, 5, 6, 7, 8, 9, 0, 1] : (tensor<2x2x2x2x2x2x2x2x2x2xf32>) -> tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %56 = stablehlo.slice %arg0 [2:3, 4:5, 0:2, 0:2, 0:2, 0:2] : (tensor<3x5x2x2x2x2xf32>) -> tensor<1x1x2x2x2x2xf32>
    %57 = stablehlo.reshape %56 : (tensor<1x1x2x2x2x2xf32>) -> tensor<2x2x2x2xf32>
    %58 = stablehlo.dot_general %57, %55, contracting_dims = [2, 3] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x2x2x2xf32>, tensor<2x2x2x2x2x2x2x2x2x2xf32>) -> tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %59 = stablehlo.multiply %58, %58 : tensor<2x2x2x2x2x2x2x2x2x2xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %60 = stablehlo.reduce(%59 init: %cst_0) applies stablehlo.add across dimensions = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] : (tensor<2x2x2x2x2x2x2x2x2x2xf32>, tensor<f32>) -> tensor<f32>
    return %60 : tensor<f32>
  }
}


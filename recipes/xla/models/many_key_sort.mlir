module @jit_order {
  func.func public @main(%arg0: tensor<8x17xi32>) -> (tensor<8xi32>) {
    %0 = stablehlo.slice %arg0 [0:8, 16:17] : (tensor<8x17xi32>) -> tensor<8x1xi32>
    %1 = stablehlo.reshape %0 : (tensor<8x1xi32>) -> tensor<8xi32>
    %2 = stablehlo.slice %arg0 [0:8, 15:16] : (tensor<8x17xi32>) -> tensor<8x1xi32>
    %3 = stablehlo.reshape %2 : (tensor<8x1xi32>) -> tensor<8xi32>
    %4 = stablehlo.slice %arg0 [0:8, 14:15] : (tensor<8x17xi32>) -> tensor<8x1xi32>
    %5 = stablehlo.reshape %4 : (tensor<8x1xi32>) -> tensor<8xi32>
    %6 = stablehlo.slice %arg0 [0:8, 13:14] : (tensor<8x17xi32>) -> tensor<8x1xi32>
    %7 = stablehlo.reshape %6 : (tensor<8x1xi32>) -> tensor<8xi32>
    %8 = stablehlo.slice %arg0 [0:8, 12:13] : (tensor<8x17xi32>) -> tensor<8x1xi32>
    %9 = stablehlo.reshape %8 : (tensor<8x1xi32>) -> tensor<8xi32>
    %10 = stablehlo.slice %arg0 [0:8, 11:12] : (tensor<8x17xi32>) -> tensor<8x1xi32>
    %11 = stablehlo.reshape %10 : (tensor<8x1xi32>) -> tensor<8xi32>
    %12 = stablehlo.slice %arg0 [0:8, 10:11] : (tensor<8x17xi32>) -> tensor<8x1xi32>
    %13 = stablehlo.reshape %12 : (tensor<8x1xi32>) -> tensor<8xi32>
    %14 = stablehlo.slice %arg0 [0:8, 9:10] : (tensor<8x17xi32>) -> tensor<8x1xi32>
    %15 = stablehlo.reshape %14 : (tensor<8x1xi32>) -> tensor<8xi32>
    %16 = stablehlo.slice %arg0 [0:8, 8:9] : (tensor<8x17xi32>) -> tensor<8x1xi32>
    %17 = stablehlo.reshape %16 : (tensor<8x1xi32>) -> tensor<8xi32>
    %18 = stablehlo.slice %arg0 [0:8, 7:8] : (tensor<8x17xi32>) -> tensor<8x1xi32>
    %19 = stablehlo.reshape %18 : (tensor<8x1xi32>) -> tensor<8xi32>
    %20 = stablehlo.slice %arg0 [0:8, 6:7] : (tensor<8x17xi32>) -> tensor<8x1xi32>
    %21 = stablehlo.reshape %20 : (tensor<8x1xi32>) -> tensor<8xi32>
    %22 = stablehlo.slice %arg0 [0:8, 5:6] : (tensor<8x17xi32>) -> tensor<8x1xi32>
    %23 = stablehlo.reshape %22 : (tensor<8x1xi32>) -> tensor<8xi32>
    %24 = stablehlo.slice %arg0 [0:8, 4:5] : (tensor<8x17xi32>) -> tensor<8x1xi32>
    %25 = stablehlo.reshape %24 : (tensor<8x1xi32>) -> tensor<8xi32>
    %26 = stablehlo.slice %arg0 [0:8, 3:4] : (tensor<8x17xi32>) -> tensor<8x1xi32>
    %27 = stablehlo.reshape %26 : (tensor<8x1xi32>) -> tensor<8xi32>
    %28 = stablehlo.slice %arg0 [0:8, 2:3] : (tensor<8x17xi32>) -> tensor<8x1xi32>
    %29 = stablehlo.reshape %28 : (tensor<8x1xi32>) -> tensor<8xi32>
    %30 = stablehlo.slice %arg0 [0:8, 1:2] : (tensor<8x17xi32>) -> tensor<8x1xi32>
    %31 = stablehlo.reshape %30 : (tensor<8x1xi32>) -> tensor<8xi32>
    %32 = stablehlo.slice %arg0 [0:8, 0:1] : (tensor<8x17xi32>) -> tensor<8x1xi32>
    %33 = stablehlo.reshape %32 : (tensor<8x1xi32>) -> tensor<8xi32>
    %34 = call @lexsort(%1, %3, %5, %7, %9, %11, %13, %15, %17, %19, %21, %23, %25, %27, %29, %31, %33) : (tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>) -> tensor<8xi32>
    return %34 : tensor<8xi32>
  }
  func.func private @lexsort(%arg0: tensor<8xi32>, %arg1: tensor<8xi32>, %arg2: tensor<8xi32>, %arg3: tensor<8xi32>, %arg4: tensor<8xi32>, %arg5: tensor<8xi32>, %arg6: tensor<8xi32>, %arg7: tensor<8xi32>, %arg8: tensor<8xi32>, %arg9: tensor<8xi32>, %arg10: tensor<8xi32>, %arg11: tensor<8xi32>, %arg12: tensor<8xi32>, %arg13: tensor<8xi32>, %arg14: tensor<8xi32>, %arg15: tensor<8xi32>, %arg16: tensor<8xi32>) -> tensor<8xi32> {
    %0 = stablehlo.iota dim = 0 : tensor<8xi32>
    %1:18 = "stablehlo.sort"(%arg16, %arg15, %arg14, %arg13, %arg12, %arg11, %arg10, %arg9, %arg8, %arg7, %arg6, %arg5, %arg4, %arg3, %arg2, %arg1, %arg0, %0) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%arg17: tensor<i32>, %arg18: tensor<i32>, %arg19: tensor<i32>, %arg20: tensor<i32>, %arg21: tensor<i32>, %arg22: tensor<i32>, %arg23: tensor<i32>, %arg24: tensor<i32>, %arg25: tensor<i32>, %arg26: tensor<i32>, %arg27: tensor<i32>, %arg28: tensor<i32>, %arg29: tensor<i32>, %arg30: tensor<i32>, %arg31: tensor<i32>, %arg32: tensor<i32>, %arg33: tensor<i32>, %arg34: tensor<i32>, %arg35: tensor<i32>, %arg36: tensor<i32>, %arg37: tensor<i32>, %arg38: tensor<i32>, %arg39: tensor<i32>, %arg40: tensor<i32>, %arg41: tensor<i32>, %arg42: tensor<i32>, %arg43: tensor<i32>, %arg44: tensor<i32>, %arg45: tensor<i32>, %arg46: tensor<i32>, %arg47: tensor<i32>, %arg48: tensor<i32>, %arg49: tensor<i32>, %arg50: tensor<i32>, %arg51: tensor<i32>, %arg52: tensor<i32>):
      %2 = stablehlo.compare  LT, %arg49, %arg50,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %3 = stablehlo.compare  LT, %arg47, %arg48,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %4 = stablehlo.compare  EQ, %arg47, %arg48,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %5 = stablehlo.and %4, %2 : tensor<i1>
      %6 = stablehlo.or %3, %5 : tensor<i1>
      %7 = stablehlo.compare  LT, %arg45, %arg46,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %8 = stablehlo.compare  EQ, %arg45, %arg46,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %9 = stablehlo.and %8, %6 : tensor<i1>
      %10 = stablehlo.or %7, %9 : tensor<i1>
      %11 = stablehlo.compare  LT, %arg43, %arg44,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %12 = stablehlo.compare  EQ, %arg43, %arg44,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %13 = stablehlo.and %12, %10 : tensor<i1>
      %14 = stablehlo.or %11, %13 : tensor<i1>
      %15 = stablehlo.compare  LT, %arg41, %arg42,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %16 = stablehlo.compare  EQ, %arg41, %arg42,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %17 = stablehlo.and %16, %14 : tensor<i1>
      %18 = stablehlo.or %15, %17 : tensor<i1>
      %19 = stablehlo.compare  LT, %arg39, %arg40,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %20 = stablehlo.compare  EQ, %arg39, %arg40,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %21 = stablehlo.and %20, %18 : tensor<i1>
      %22 = stablehlo.or %19, %21 : tensor<i1>
      %23 = stablehlo.compare  LT, %arg37, %arg38,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %24 = stablehlo.compare  EQ, %arg37, %arg38,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %25 = stablehlo.and %24, %22 : tensor<i1>
      %26 = stablehlo.or %23, %25 : tensor<i1>
      %27 = stablehlo.compare  LT, %arg35, %arg36,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %28 = stablehlo.compare  EQ, %arg35, %arg36,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %29 = stablehlo.and %28, %26 : tensor<i1>
      %30 = stablehlo.or %27, %29 : tensor<i1>
      %31 = stablehlo.compare  LT, %arg33, %arg34,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %32 = stablehlo.compare  EQ, %arg33, %arg34,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %33 = stablehlo.and %32, %30 : tensor<i1>
      %34 = stablehlo.or %31, %33 : tensor<i1>
      %35 = stablehlo.compare  LT, %arg31, %arg32,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %36 = stablehlo.compare  EQ, %arg31, %arg32,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %37 = stablehlo.and %36, %34 : tensor<i1>
      %38 = stablehlo.or %35, %37 : tensor<i1>
      %39 = stablehlo.compare  LT, %arg29, %arg30,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %40 = stablehlo.compare  EQ, %arg29, %arg30,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %41 = stablehlo.and %40, %38 : tensor<i1>
      %42 = stablehlo.or %39, %41 : tensor<i1>
      %43 = stablehlo.compare  LT, %arg27, %arg28,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %44 = stablehlo.compare  EQ, %arg27, %arg28,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %45 = stablehlo.and %44, %42 : tensor<i1>
      %46 = stablehlo.or %43, %45 : tensor<i1>
      %47 = stablehlo.compare  LT, %arg25, %arg26,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %48 = stablehlo.compare  EQ, %arg25, %arg26,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %49 = stablehlo.and %48, %46 : tensor<i1>
      %50 = stablehlo.or %47, %49 : tensor<i1>
      %51 = stablehlo.compare  LT, %arg23, %arg24,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %52 = stablehlo.compare  EQ, %arg23, %arg24,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %53 = stablehlo.and %52, %50 : tensor<i1>
      %54 = stablehlo.or %51, %53 : tensor<i1>
      %55 = stablehlo.compare  LT, %arg21, %arg22,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %56 = stablehlo.compare  EQ, %arg21, %arg22,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %57 = stablehlo.and %56, %54 : tensor<i1>
      %58 = stablehlo.or %55, %57 : tensor<i1>
      %59 = stablehlo.compare  LT, %arg19, %arg20,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %60 = stablehlo.compare  EQ, %arg19, %arg20,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %61 = stablehlo.and %60, %58 : tensor<i1>
      %62 = stablehlo.or %59, %61 : tensor<i1>
      %63 = stablehlo.compare  LT, %arg17, %arg18,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %64 = stablehlo.compare  EQ, %arg17, %arg18,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %65 = stablehlo.and %64, %62 : tensor<i1>
      %66 = stablehlo.or %63, %65 : tensor<i1>
      stablehlo.return %66 : tensor<i1>
    }) : (tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>) -> (tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<8xi32>)
    return %1#17 : tensor<8xi32>
  }
}


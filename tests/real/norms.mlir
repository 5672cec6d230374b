module attributes {torch.debug_module_name = "Norms"} {
  func.func @main(%arg0: !torch.vtensor<[3,2,?],f32>, %arg1: !torch.vtensor<[1],si64>) -> (!torch.vtensor<[3,2,1],f32>, !torch.vtensor<[3,2,?],f32>) attributes {torch.onnx_meta.ir_version = 8 : si64, torch.onnx_meta.opset_version = 18 : si64, torch.onnx_meta.producer_name = "tests, with a comma", torch.onnx_meta.producer_version = ""} {
    %none = torch.constant.none
    %int2 = torch.constant.int 2
    %int3 = torch.constant.int 3
    %shape = torch.prim.ListConstruct %int3, %int2 : (!torch.int, !torch.int) -> !torch.list<int>
    %0 = torch.operator "onnx.Constant"() {torch.onnx.value = dense_resource<scale> : tensor<2x1xf32>} : () -> !torch.vtensor<[2,1],f32>
    %1 = torch.vtensor.literal(dense<[[1.0], [2.0]]> : tensor<2x1xf32>) : !torch.vtensor<[2,1],f32>
    %2 = torch.operator "onnx.Add"(%0, %1) : (!torch.vtensor<[2,1],f32>, !torch.vtensor<[2,1],f32>) -> !torch.vtensor<[2,1],f32>
    %3 = torch.operator "onnx.Mul"(%arg0, %2) : (!torch.vtensor<[3,2,?],f32>, !torch.vtensor<[2,1],f32>) -> !torch.vtensor<[3,2,?],f32>
    %4 = torch.operator "onnx.ReduceL1"(%3, %arg1) {torch.onnx.keepdims = 1 : si64} : (!torch.vtensor<[3,2,?],f32>, !torch.vtensor<[1],si64>) -> !torch.vtensor<[3,2,1],f32>
    %5 = torch.operator "onnx.Relu"(%3) : (!torch.vtensor<[3,2,?],f32>) -> !torch.vtensor<[3,2,?],f32>
    return %4, %5 : !torch.vtensor<[3,2,1],f32>, !torch.vtensor<[3,2,?],f32>
  }
}
{-#
  dialect_resources: {
    builtin: {
      scale: "0x080000000000803F00000040"
    }
  }
#-}

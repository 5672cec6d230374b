module {
  func.func @masked_mean(%arg0: !torch.vtensor<[1,2],i1>) -> !torch.vtensor<[1,1],i1> attributes {torch.onnx_meta.opset_version = 20 : si64} {
    %0 = torch.operator "onnx.Constant"() {torch.onnx.value = dense<1> : tensor<1xsi64>} : () -> !torch.vtensor<[1],si64> 
    %1 = torch.operator "onnx.ReduceMax"(%arg0, %0) : (!torch.vtensor<[1,2],i1>, !torch.vtensor<[1],si64>) -> !torch.vtensor<[1,1],i1> 
    return %1 : !torch.vtensor<[1,1],i1>
  }
}

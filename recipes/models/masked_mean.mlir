// The mean over the tokens of a sentence that are not padding, and zero for an empty one, as an ONNX importer writes it.
module {
  func.func @masked_mean(%tokens: !torch.vtensor<[4,6],si64>, %hidden: !torch.vtensor<[4,6,8],f32>, %weights: !torch.vtensor<[8,8],f32>) -> !torch.vtensor<[4,8],f32> attributes {torch.onnx_meta.ir_version = 9 : si64, torch.onnx_meta.opset_version = 20 : si64} {
    %padding = torch.operator "onnx.Constant"() {torch.onnx.value = dense<0> : tensor<si64>} : () -> !torch.vtensor<[],si64>
    %axis = torch.operator "onnx.Constant"() {torch.onnx.value = dense<1> : tensor<1xsi64>} : () -> !torch.vtensor<[1],si64>
    %last = torch.operator "onnx.Constant"() {torch.onnx.value = dense<2> : tensor<1xsi64>} : () -> !torch.vtensor<[1],si64>
    %one = torch.operator "onnx.Constant"() {torch.onnx.value = dense<1.0> : tensor<f32>} : () -> !torch.vtensor<[],f32>
    %zero = torch.operator "onnx.Constant"() {torch.onnx.value = dense<0.0> : tensor<f32>} : () -> !torch.vtensor<[],f32>
    %valid = torch.operator "onnx.Greater"(%tokens, %padding) : (!torch.vtensor<[4,6],si64>, !torch.vtensor<[],si64>) -> !torch.vtensor<[4,6],i1>
    %any = torch.operator "onnx.ReduceMax"(%valid, %axis) {torch.onnx.keepdims = 1 : si64} : (!torch.vtensor<[4,6],i1>, !torch.vtensor<[1],si64>) -> !torch.vtensor<[4,1],i1>
    %projected = torch.operator "onnx.MatMul"(%hidden, %weights) : (!torch.vtensor<[4,6,8],f32>, !torch.vtensor<[8,8],f32>) -> !torch.vtensor<[4,6,8],f32>
    %active = torch.operator "onnx.Tanh"(%projected) : (!torch.vtensor<[4,6,8],f32>) -> !torch.vtensor<[4,6,8],f32>
    %counted = torch.operator "onnx.Cast"(%valid) {torch.onnx.to = 1 : si64} : (!torch.vtensor<[4,6],i1>) -> !torch.vtensor<[4,6],f32>
    %mask = torch.operator "onnx.Unsqueeze"(%counted, %last) : (!torch.vtensor<[4,6],f32>, !torch.vtensor<[1],si64>) -> !torch.vtensor<[4,6,1],f32>
    %kept = torch.operator "onnx.Mul"(%active, %mask) : (!torch.vtensor<[4,6,8],f32>, !torch.vtensor<[4,6,1],f32>) -> !torch.vtensor<[4,6,8],f32>
    %sum = torch.operator "onnx.ReduceSum"(%kept, %axis) {torch.onnx.keepdims = 0 : si64} : (!torch.vtensor<[4,6,8],f32>, !torch.vtensor<[1],si64>) -> !torch.vtensor<[4,8],f32>
    %number = torch.operator "onnx.ReduceSum"(%counted, %axis) {torch.onnx.keepdims = 1 : si64} : (!torch.vtensor<[4,6],f32>, !torch.vtensor<[1],si64>) -> !torch.vtensor<[4,1],f32>
    %divisor = torch.operator "onnx.Max"(%number, %one) : (!torch.vtensor<[4,1],f32>, !torch.vtensor<[],f32>) -> !torch.vtensor<[4,1],f32>
    %mean = torch.operator "onnx.Div"(%sum, %divisor) : (!torch.vtensor<[4,8],f32>, !torch.vtensor<[4,1],f32>) -> !torch.vtensor<[4,8],f32>
    %result = torch.operator "onnx.Where"(%any, %mean, %zero) : (!torch.vtensor<[4,1],i1>, !torch.vtensor<[4,8],f32>, !torch.vtensor<[],f32>) -> !torch.vtensor<[4,8],f32>
    return %result : !torch.vtensor<[4,8],f32>
  }
}

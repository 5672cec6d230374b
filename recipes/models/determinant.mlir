// The determinant of a matrix, as an ONNX importer writes it.
module {
  func.func @determinant(%matrix: !torch.vtensor<[2,2],f32>) -> !torch.vtensor<[],f32> attributes {torch.onnx_meta.opset_version = 22 : si64} {
    %result = torch.operator "onnx.Det"(%matrix) : (!torch.vtensor<[2,2],f32>) -> !torch.vtensor<[],f32>
    return %result : !torch.vtensor<[],f32>
  }
}

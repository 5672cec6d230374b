#map = affine_map<(d0) -> (d0)>
"builtin.module"() ({
  "func.func"() <{function_type = (i32) -> i32, sym_name = "f"}> ({
  ^bb0(%a: i32):
    %0:2 = "t.two"(%a) {x = [1, 2], s = "a\"b"} : (i32) -> (i32, f32) loc("a.mlir":3:4)
    "cf.br"(%0#0)[^bb1] : (i32) -> ()
  ^bb1(%b: i32):
    "func.return"(%b) : (i32) -> ()
  }) : () -> ()
}) : () -> ()

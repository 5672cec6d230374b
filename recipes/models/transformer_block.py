"""A chain of transformer encoder blocks: attention and feed-forward, each behind a layer norm and a residual.

The sequence has a fixed length; batch and heads are one dimension. Softmax and attention are spelled out
as matmuls, the way an exporter without a fused attention does it.
"""

import argparse
from string import Template

PROGRAM = Template("""\
#token   = affine_map<(s, d) -> (s, d)>
#row     = affine_map<(s, d) -> (s)>
#feature = affine_map<(s, d) -> (d)>

// Zero mean and unit variance for every token, then scale and shift for every feature.
func.func private @layer_norm(%x: tensor<${seq}x${dim}x${dtype}>, %gamma: tensor<${dim}x${dtype}>, %beta: tensor<${dim}x${dtype}>)
    -> tensor<${seq}x${dim}x${dtype}> {
  %zero = arith.constant 0.0 : ${dtype}
  %features = arith.constant ${dim}.0 : ${dtype}
  %epsilon = arith.constant 1.0e-5 : ${dtype}
  %row = tensor.empty() : tensor<${seq}x${dtype}>
  %row_zero = linalg.fill ins(%zero : ${dtype}) outs(%row : tensor<${seq}x${dtype}>) -> tensor<${seq}x${dtype}>
  %sum = linalg.generic {indexing_maps = [#token, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<${seq}x${dim}x${dtype}>) outs(%row_zero : tensor<${seq}x${dtype}>) {
  ^bb0(%a: ${dtype}, %s: ${dtype}):
    %t = arith.addf %a, %s : ${dtype}
    linalg.yield %t : ${dtype}
  } -> tensor<${seq}x${dtype}>
  %empty = tensor.empty() : tensor<${seq}x${dim}x${dtype}>
  %centred = linalg.generic {indexing_maps = [#token, #row, #token], iterator_types = ["parallel", "parallel"]}
      ins(%x, %sum : tensor<${seq}x${dim}x${dtype}>, tensor<${seq}x${dtype}>) outs(%empty : tensor<${seq}x${dim}x${dtype}>) {
  ^bb0(%a: ${dtype}, %s: ${dtype}, %unused: ${dtype}):
    %mean = arith.divf %s, %features : ${dtype}
    %t = arith.subf %a, %mean : ${dtype}
    linalg.yield %t : ${dtype}
  } -> tensor<${seq}x${dim}x${dtype}>
  %squares = linalg.generic {indexing_maps = [#token, #row], iterator_types = ["parallel", "reduction"]}
      ins(%centred : tensor<${seq}x${dim}x${dtype}>) outs(%row_zero : tensor<${seq}x${dtype}>) {
  ^bb0(%a: ${dtype}, %s: ${dtype}):
    %square = arith.mulf %a, %a : ${dtype}
    %t = arith.addf %square, %s : ${dtype}
    linalg.yield %t : ${dtype}
  } -> tensor<${seq}x${dtype}>
  %y = linalg.generic {indexing_maps = [#token, #row, #feature, #feature, #token], iterator_types = ["parallel", "parallel"]}
      ins(%centred, %squares, %gamma, %beta
          : tensor<${seq}x${dim}x${dtype}>, tensor<${seq}x${dtype}>, tensor<${dim}x${dtype}>, tensor<${dim}x${dtype}>)
      outs(%empty : tensor<${seq}x${dim}x${dtype}>) {
  ^bb0(%a: ${dtype}, %s: ${dtype}, %g: ${dtype}, %b: ${dtype}, %unused: ${dtype}):
    %variance = arith.divf %s, %features : ${dtype}
    %stable = arith.addf %variance, %epsilon : ${dtype}
    %inverse = math.rsqrt %stable : ${dtype}
    %normal = arith.mulf %a, %inverse : ${dtype}
    %scaled = arith.mulf %normal, %g : ${dtype}
    %shifted = arith.addf %scaled, %b : ${dtype}
    linalg.yield %shifted : ${dtype}
  } -> tensor<${seq}x${dim}x${dtype}>
  return %y : tensor<${seq}x${dim}x${dtype}>
}

// x times a weight.
func.func private @project(%x: tensor<${seq}x${dim}x${dtype}>, %weight: tensor<${dim}x${dim}x${dtype}>) -> tensor<${seq}x${dim}x${dtype}> {
  %zero = arith.constant 0.0 : ${dtype}
  %empty = tensor.empty() : tensor<${seq}x${dim}x${dtype}>
  %init = linalg.fill ins(%zero : ${dtype}) outs(%empty : tensor<${seq}x${dim}x${dtype}>) -> tensor<${seq}x${dim}x${dtype}>
  %y = linalg.matmul ins(%x, %weight : tensor<${seq}x${dim}x${dtype}>, tensor<${dim}x${dim}x${dtype}>)
      outs(%init : tensor<${seq}x${dim}x${dtype}>) -> tensor<${seq}x${dim}x${dtype}>
  return %y : tensor<${seq}x${dim}x${dtype}>
}

// Token x feature to head x token x feature of the head.
func.func private @split_heads(%x: tensor<${seq}x${dim}x${dtype}>) -> tensor<${heads}x${seq}x${head}x${dtype}> {
  %split = tensor.expand_shape %x [[0], [1, 2]] output_shape [${seq}, ${heads}, ${head}]
      : tensor<${seq}x${dim}x${dtype}> into tensor<${seq}x${heads}x${head}x${dtype}>
  %empty = tensor.empty() : tensor<${heads}x${seq}x${head}x${dtype}>
  %y = linalg.transpose ins(%split : tensor<${seq}x${heads}x${head}x${dtype}>)
      outs(%empty : tensor<${heads}x${seq}x${head}x${dtype}>) permutation = [1, 0, 2]
  return %y : tensor<${heads}x${seq}x${head}x${dtype}>
}

func.func private @attention(%q: tensor<${heads}x${seq}x${head}x${dtype}>, %k: tensor<${heads}x${seq}x${head}x${dtype}>,
                             %v: tensor<${heads}x${seq}x${head}x${dtype}>) -> tensor<${seq}x${dim}x${dtype}> {
  %zero = arith.constant 0.0 : ${dtype}
  %scale = arith.constant ${scale} : ${dtype}
  %k_empty = tensor.empty() : tensor<${heads}x${head}x${seq}x${dtype}>
  %k_turned = linalg.transpose ins(%k : tensor<${heads}x${seq}x${head}x${dtype}>)
      outs(%k_empty : tensor<${heads}x${head}x${seq}x${dtype}>) permutation = [0, 2, 1]
  %score_empty = tensor.empty() : tensor<${heads}x${seq}x${seq}x${dtype}>
  %score_zero = linalg.fill ins(%zero : ${dtype}) outs(%score_empty : tensor<${heads}x${seq}x${seq}x${dtype}>)
      -> tensor<${heads}x${seq}x${seq}x${dtype}>
  %score = linalg.batch_matmul ins(%q, %k_turned : tensor<${heads}x${seq}x${head}x${dtype}>, tensor<${heads}x${head}x${seq}x${dtype}>)
      outs(%score_zero : tensor<${heads}x${seq}x${seq}x${dtype}>) -> tensor<${heads}x${seq}x${seq}x${dtype}>
  %scaled = linalg.generic {indexing_maps = [affine_map<(h, s, t) -> (h, s, t)>, affine_map<(h, s, t) -> (h, s, t)>],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%score : tensor<${heads}x${seq}x${seq}x${dtype}>) outs(%score_empty : tensor<${heads}x${seq}x${seq}x${dtype}>) {
  ^bb0(%a: ${dtype}, %unused: ${dtype}):
    %t = arith.mulf %a, %scale : ${dtype}
    linalg.yield %t : ${dtype}
  } -> tensor<${heads}x${seq}x${seq}x${dtype}>
  %weight = linalg.softmax dimension(2) ins(%scaled : tensor<${heads}x${seq}x${seq}x${dtype}>)
      outs(%score_empty : tensor<${heads}x${seq}x${seq}x${dtype}>) -> tensor<${heads}x${seq}x${seq}x${dtype}>
  %out_empty = tensor.empty() : tensor<${heads}x${seq}x${head}x${dtype}>
  %out_zero = linalg.fill ins(%zero : ${dtype}) outs(%out_empty : tensor<${heads}x${seq}x${head}x${dtype}>)
      -> tensor<${heads}x${seq}x${head}x${dtype}>
  %out = linalg.batch_matmul ins(%weight, %v : tensor<${heads}x${seq}x${seq}x${dtype}>, tensor<${heads}x${seq}x${head}x${dtype}>)
      outs(%out_zero : tensor<${heads}x${seq}x${head}x${dtype}>) -> tensor<${heads}x${seq}x${head}x${dtype}>
  %token_empty = tensor.empty() : tensor<${seq}x${heads}x${head}x${dtype}>
  %token = linalg.transpose ins(%out : tensor<${heads}x${seq}x${head}x${dtype}>)
      outs(%token_empty : tensor<${seq}x${heads}x${head}x${dtype}>) permutation = [1, 0, 2]
  %y = tensor.collapse_shape %token [[0], [1, 2]] : tensor<${seq}x${heads}x${head}x${dtype}> into tensor<${seq}x${dim}x${dtype}>
  return %y : tensor<${seq}x${dim}x${dtype}>
}

// Feed-forward with a tanh-approximated GELU between the two matmuls.
func.func private @feed_forward(%x: tensor<${seq}x${dim}x${dtype}>, %up: tensor<${dim}x${inner}x${dtype}>,
                                %down: tensor<${inner}x${dim}x${dtype}>) -> tensor<${seq}x${dim}x${dtype}> {
  %zero = arith.constant 0.0 : ${dtype}
  %half = arith.constant 0.5 : ${dtype}
  %one = arith.constant 1.0 : ${dtype}
  %cubic = arith.constant 0.044715 : ${dtype}
  %slope = arith.constant 0.797885 : ${dtype}
  %inner_empty = tensor.empty() : tensor<${seq}x${inner}x${dtype}>
  %inner_zero = linalg.fill ins(%zero : ${dtype}) outs(%inner_empty : tensor<${seq}x${inner}x${dtype}>) -> tensor<${seq}x${inner}x${dtype}>
  %inner = linalg.matmul ins(%x, %up : tensor<${seq}x${dim}x${dtype}>, tensor<${dim}x${inner}x${dtype}>)
      outs(%inner_zero : tensor<${seq}x${inner}x${dtype}>) -> tensor<${seq}x${inner}x${dtype}>
  %active = linalg.generic {indexing_maps = [#token, #token], iterator_types = ["parallel", "parallel"]}
      ins(%inner : tensor<${seq}x${inner}x${dtype}>) outs(%inner_empty : tensor<${seq}x${inner}x${dtype}>) {
  ^bb0(%a: ${dtype}, %unused: ${dtype}):
    %square = arith.mulf %a, %a : ${dtype}
    %cube = arith.mulf %square, %a : ${dtype}
    %weighted = arith.mulf %cube, %cubic : ${dtype}
    %bent = arith.addf %a, %weighted : ${dtype}
    %scaled = arith.mulf %bent, %slope : ${dtype}
    %tanh = math.tanh %scaled : ${dtype}
    %raised = arith.addf %tanh, %one : ${dtype}
    %gate = arith.mulf %raised, %half : ${dtype}
    %gelu = arith.mulf %a, %gate : ${dtype}
    linalg.yield %gelu : ${dtype}
  } -> tensor<${seq}x${inner}x${dtype}>
  %out_empty = tensor.empty() : tensor<${seq}x${dim}x${dtype}>
  %out_zero = linalg.fill ins(%zero : ${dtype}) outs(%out_empty : tensor<${seq}x${dim}x${dtype}>) -> tensor<${seq}x${dim}x${dtype}>
  %y = linalg.matmul ins(%active, %down : tensor<${seq}x${inner}x${dtype}>, tensor<${inner}x${dim}x${dtype}>)
      outs(%out_zero : tensor<${seq}x${dim}x${dtype}>) -> tensor<${seq}x${dim}x${dtype}>
  return %y : tensor<${seq}x${dim}x${dtype}>
}

func.func @encoder(
    %x: tensor<${seq}x${dim}x${dtype}>,
    ${arguments}) -> tensor<${seq}x${dim}x${dtype}> {
${blocks}
  return ${result} : tensor<${seq}x${dim}x${dtype}>
}
""")

BLOCK = Template("""\
  %n${i}_norm = call @layer_norm(${x}, %n${i}_gamma0, %n${i}_beta0) : (${token}, ${feature}, ${feature}) -> ${token}
  %n${i}_query = call @project(%n${i}_norm, %n${i}_wq) : (${token}, ${square}) -> ${token}
  %n${i}_key = call @project(%n${i}_norm, %n${i}_wk) : (${token}, ${square}) -> ${token}
  %n${i}_value = call @project(%n${i}_norm, %n${i}_wv) : (${token}, ${square}) -> ${token}
  %n${i}_q = call @split_heads(%n${i}_query) : (${token}) -> ${by_head}
  %n${i}_k = call @split_heads(%n${i}_key) : (${token}) -> ${by_head}
  %n${i}_v = call @split_heads(%n${i}_value) : (${token}) -> ${by_head}
  %n${i}_seen = call @attention(%n${i}_q, %n${i}_k, %n${i}_v) : (${by_head}, ${by_head}, ${by_head}) -> ${token}
  %n${i}_mixed = call @project(%n${i}_seen, %n${i}_wo) : (${token}, ${square}) -> ${token}
  %n${i}_middle = arith.addf ${x}, %n${i}_mixed : ${token}
  %n${i}_norm1 = call @layer_norm(%n${i}_middle, %n${i}_gamma1, %n${i}_beta1) : (${token}, ${feature}, ${feature}) -> ${token}
  %n${i}_fed = call @feed_forward(%n${i}_norm1, %n${i}_up, %n${i}_down) : (${token}, ${up}, ${down}) -> ${token}
  %n${i}_out = arith.addf %n${i}_middle, %n${i}_fed : ${token}""")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=1)
    parser.add_argument("--sequence", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--head", type=int, default=32, help="features of a head")
    parser.add_argument("--dtype", choices=["f16", "f32"], default="f32")
    args = parser.parse_args()
    seq, heads, head, dtype = args.sequence, args.heads, args.head, args.dtype
    dim, inner = heads * head, 4 * heads * head
    kinds = {
        "token": f"tensor<{seq}x{dim}x{dtype}>",
        "feature": f"tensor<{dim}x{dtype}>",
        "square": f"tensor<{dim}x{dim}x{dtype}>",
        "up": f"tensor<{dim}x{inner}x{dtype}>",
        "down": f"tensor<{inner}x{dim}x{dtype}>",
        "by_head": f"tensor<{heads}x{seq}x{head}x{dtype}>",
    }
    weights = dict.fromkeys(["gamma0", "beta0", "gamma1", "beta1"], "feature")
    weights |= dict.fromkeys(["wq", "wk", "wv", "wo"], "square") | {
        "up": "up",
        "down": "down",
    }
    arguments, blocks, x = [], [], "%x"
    for i in range(args.blocks):
        arguments += [f"%n{i}_{name}: {kinds[kind]}" for name, kind in weights.items()]
        blocks.append(BLOCK.substitute(kinds, i=i, x=x))
        x = f"%n{i}_out"
    program = PROGRAM.substitute(
        seq=seq,
        dim=dim,
        inner=inner,
        heads=heads,
        head=head,
        dtype=dtype,
        scale=f"{head**-0.5:.4f}",
        arguments=",\n    ".join(arguments),
        blocks="\n".join(blocks),
        result=x,
    )
    print(program, end="")


if __name__ == "__main__":
    main()

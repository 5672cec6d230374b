"""Plain scaled dot product attention: batch x queries x head against batch x keys x head.

--queries 1 is the decode shape, one new token against a cache. --keys may be a length that no tile
divides, as any prompt has it.
"""

import argparse
from string import Template

PROGRAM = Template("""\
func.func @attention(%query: tensor<${query}x${dtype}>, %key: tensor<${key}x${dtype}>,
                     %value: tensor<${value}x${dtype}>) -> tensor<${out}x${dtype}> {
  %scale = arith.constant 0.125 : ${dtype}
  %empty = tensor.empty() : tensor<${out}x${dtype}>
  // In the generic form, because the pretty one changed between releases.
  %result = "iree_linalg_ext.attention"(%query, %key, %value, %scale, %empty) <{indexing_maps = [
      affine_map<(b, m, n, k1, k2) -> (b, m, k1)>, affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>,
      affine_map<(b, m, n, k1, k2) -> (b, k2, n)>, affine_map<(b, m, n, k1, k2) -> ()>,
      affine_map<(b, m, n, k1, k2) -> (b, m, n)>]}> ({
  ^bb0(%score: f32):
    "iree_linalg_ext.yield"(%score) : (f32) -> ()
  }) : (tensor<${query}x${dtype}>, tensor<${key}x${dtype}>, tensor<${value}x${dtype}>, ${dtype},
        tensor<${out}x${dtype}>) -> tensor<${out}x${dtype}>
  return %result : tensor<${out}x${dtype}>
}
""")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=20, help="batch times heads")
    parser.add_argument("--queries", type=int, default=128)
    parser.add_argument("--keys", type=int, default=128)
    parser.add_argument(
        "--head", type=int, default=64, help="size of a head of query and key"
    )
    parser.add_argument(
        "--value-head", type=int, help="size of a head of the value (default: the same)"
    )
    parser.add_argument("--dtype", default="f16")
    args = parser.parse_args()
    value_head = args.value_head or args.head
    program = PROGRAM.substitute(
        query=f"{args.batch}x{args.queries}x{args.head}",
        key=f"{args.batch}x{args.keys}x{args.head}",
        value=f"{args.batch}x{args.keys}x{value_head}",
        out=f"{args.batch}x{args.queries}x{value_head}",
        dtype=args.dtype,
    )
    print(program, end="")


if __name__ == "__main__":
    main()

"""A matmul whose reduction has an unknown length and whose sides suit no tile: 196 x (? x 4) by (? x 4) x 16.

This is what is left of attention-like contractions over a sequence of any length. --length gives the
unknown dimension a size, for a static twin.
"""

import argparse
from string import Template

PROGRAM = Template("""\
func.func @matmul(%left: tensor<196x${k}x4xf32>, %right: tensor<${k}x16x4xf32>) -> tensor<196x16xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<196x16xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<196x16xf32>) -> tensor<196x16xf32>
  %result = linalg.generic {indexing_maps = [
      affine_map<(m, n, k, l) -> (m, k, l)>, affine_map<(m, n, k, l) -> (k, n, l)>, affine_map<(m, n, k, l) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%left, %right : tensor<196x${k}x4xf32>, tensor<${k}x16x4xf32>) outs(%init : tensor<196x16xf32>) {
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %product = arith.mulf %x, %y : f32
    %next = arith.addf %product, %sum : f32
    linalg.yield %next : f32
  } -> tensor<196x16xf32>
  return %result : tensor<196x16xf32>
}
""")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--length",
        default="?",
        help="size of the unknown dimension; ? leaves it unknown",
    )
    print(PROGRAM.substitute(k=parser.parse_args().length), end="")


if __name__ == "__main__":
    main()

"""One elementwise operation on a vector, for operations that a backend cannot lower."""

import argparse


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--op", default="math.ipowi")
    parser.add_argument("--operands", type=int, choices=[1, 2], default=2)
    parser.add_argument("--dtype", default="i32")
    args = parser.parse_args()
    vector, operands = f"tensor<64x{args.dtype}>", ["x", "y"][: args.operands]
    ones = ", ".join(["#each"] * (args.operands + 1))
    print("#each = affine_map<(i) -> (i)>")
    print(
        f"func.func @each({', '.join(f'%{name}: {vector}' for name in operands)}) -> {vector} {{"
    )
    print(f"  %empty = tensor.empty() : {vector}")
    print(
        f'  %result = linalg.generic {{indexing_maps = [{ones}], iterator_types = ["parallel"]}}'
    )
    print(
        f"      ins({', '.join(f'%{name}' for name in operands)} : {', '.join([vector] * args.operands)})",
        end="",
    )
    print(f" outs(%empty : {vector}) {{")
    print(
        f"  ^bb0({', '.join(f'%{name}_i: {args.dtype}' for name in [*operands, 'unused'])}):"
    )
    print(
        f"    %r = {args.op} {', '.join(f'%{name}_i' for name in operands)} : {args.dtype}"
    )
    print(f"    linalg.yield %r : {args.dtype}")
    print(f"  }} -> {vector}")
    print(f"  return %result : {vector}")
    print("}")


if __name__ == "__main__":
    main()

"""A softmax over one dimension of a tensor, in the shape a model uses it."""

import argparse


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", default="64x4x144x144")
    parser.add_argument("--dimension", type=int, default=3)
    parser.add_argument("--dtype", default="f32")
    args = parser.parse_args()
    kind = f"tensor<{args.shape}x{args.dtype}>"
    print(f"func.func @softmax(%x: {kind}) -> {kind} {{")
    print(f"  %empty = tensor.empty() : {kind}")
    print(
        f"  %y = linalg.softmax dimension({args.dimension}) ins(%x : {kind}) outs(%empty : {kind}) -> {kind}"
    )
    print(f"  return %y : {kind}")
    print("}")


if __name__ == "__main__":
    main()

"""A chain of residual blocks as in ResNet: convolution, batch norm, ReLU, convolution, batch norm, addition, ReLU.

Convolutions are 3x3 with padding, NHWC, and keep the image's size. Batch norms are folded into a scale
and a shift per channel, as inference has them.
"""

import argparse


class Block:
    """Text of operations on images of one shape."""

    def __init__(self, size, channels):
        self.size, self.channels = size, channels
        self.image = f"tensor<1x{size}x{size}x{channels}xf32>"
        self.padded = f"tensor<1x{size + 2}x{size + 2}x{channels}xf32>"
        self.filter = f"tensor<3x3x{channels}x{channels}xf32>"
        self.channel = f"tensor<{channels}xf32>"
        self.arguments, self.lines = [f"%x: {self.image}"], []

    def argument(self, name, kind):
        self.arguments.append(f"%{name}: {kind}")
        return f"%{name}"

    def convolution(self, name, x):
        weights = self.argument(f"{name}_filter", self.filter)
        self.lines += [
            f"%{name}_padded = tensor.pad {x} low[0, 1, 1, 0] high[0, 1, 1, 0] {{",
            "^bb0(%b: index, %h: index, %w: index, %c: index):",
            "  tensor.yield %zero : f32",
            f"}} : {self.image} to {self.padded}",
            f"%{name}_init = linalg.fill ins(%zero : f32) outs(%empty : {self.image}) -> {self.image}",
            f"%{name} = linalg.conv_2d_nhwc_hwcf {{dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}}",
            f"    ins(%{name}_padded, {weights} : {self.padded}, {self.filter})"
            f" outs(%{name}_init : {self.image}) -> {self.image}",
        ]
        return f"%{name}"

    def elementwise(self, name, operands, arguments, body, result):
        maps = ", ".join(
            "#image" if kind == self.image else "#channel" for _, kind in operands
        )
        values, kinds = (
            ", ".join(value for value, _ in operands),
            ", ".join(kind for _, kind in operands),
        )
        self.lines += [
            f"%{name} = linalg.generic {{indexing_maps = [{maps}, #image],",
            '    iterator_types = ["parallel", "parallel", "parallel", "parallel"]}',
            f"    ins({values} : {kinds}) outs(%empty : {self.image}) {{",
            "^bb0("
            + ", ".join(f"%{argument}: f32" for argument in [*arguments, "unused"])
            + "):",
            *(f"  {line}" for line in body),
            f"  linalg.yield %{result} : f32",
            f"}} -> {self.image}",
        ]
        return f"%{name}"

    def batch_norm(self, name, x, *, relu):
        scale = self.argument(f"{name}_scale", self.channel)
        shift = self.argument(f"{name}_shift", self.channel)
        body = [
            "%scaled = arith.mulf %a, %s : f32",
            "%shifted = arith.addf %scaled, %t : f32",
        ]
        if relu:
            body.append("%positive = arith.maximumf %shifted, %zero : f32")
        operands = [(x, self.image), (scale, self.channel), (shift, self.channel)]
        return self.elementwise(
            name, operands, ["a", "s", "t"], body, "positive" if relu else "shifted"
        )

    def add_and_relu(self, name, x, y):
        body = [
            "%sum = arith.addf %a, %b : f32",
            "%positive = arith.maximumf %sum, %zero : f32",
        ]
        return self.elementwise(
            name, [(x, self.image), (y, self.image)], ["a", "b"], body, "positive"
        )

    def residual(self, number, x):
        first = self.batch_norm(
            f"norm{number}_0", self.convolution(f"conv{number}_0", x), relu=True
        )
        second = self.batch_norm(
            f"norm{number}_1", self.convolution(f"conv{number}_1", first), relu=False
        )
        return self.add_and_relu(f"block{number}", second, x)

    def program(self, result):
        return "\n".join(
            [
                "#image = affine_map<(b, h, w, c) -> (b, h, w, c)>",
                "#channel = affine_map<(b, h, w, c) -> (c)>",
                "func.func @residual_blocks(\n    "
                + ",\n    ".join(self.arguments)
                + f") -> {self.image} {{",
                "  %zero = arith.constant 0.0 : f32",
                f"  %empty = tensor.empty() : {self.image}",
                *(f"  {line}" for line in self.lines),
                f"  return {result} : {self.image}",
                "}",
            ]
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument(
        "--size", type=int, default=28, help="height and width of the image"
    )
    parser.add_argument("--channels", type=int, default=64)
    args = parser.parse_args()
    block, x = Block(args.size, args.channels), "%x"
    for number in range(args.blocks):
        x = block.residual(number, x)
    print(block.program(x))


if __name__ == "__main__":
    main()

"""Healthy sharded programs, made from a seed. Nothing of the recipes is in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random


@dataclass
class Model:
    """A program over several devices, made line by line: each layer multiplies on one device and hands the result on."""

    random: Random
    devices: int
    layers: int
    rows: int
    width: int
    element: str
    word: str
    named: bool
    order: str
    arguments: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    globals: list[str] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)  # device -> the number it goes by, where that is another
    bare: int | None = None  # the device whose weight has no affinity
    weight: int | None = None  # the device whose weight is a constant
    target: tuple[str, str | None] = ("rocm", "gfx942")
    options: list[str] = field(default_factory=list)
    shown: int = 0  # devices that the flags declare beyond those there are
    mixed_names: bool = False

    def place(self, device: int) -> str:
        number = self.numbers.get(device, device)
        return f"#hal.device.{self.word}<@{f'part_{number}' if self.named else f'__device_{number}'}>"

    def hidden(self) -> str:
        return f"tensor<{self.rows}x{self.width}x{self.element}>"

    def argument(self, name: str, kind: str, device: int) -> str:
        given = "" if self.bare == device and name != "x" else f" {{iree.abi.affinity = {self.place(device)}}}"
        self.arguments.append(f"%{name}: {kind}{given}")
        return f"%{name}"

    def multiply(self, name: str, value: str, device: int) -> str:
        kind, weight = self.hidden(), f"tensor<{self.width}x{self.width}x{self.element}>"
        if self.weight == device:
            self.body.append(f"%w_{name} = arith.constant dense<1.5> : {weight}")
            given = f"%w_{name}"
        else:
            given = self.argument(f"w_{name}", weight, device)
        self.body += [
            f"%e_{name} = tensor.empty() : {kind}",
            f"%z_{name} = linalg.fill ins(%zero : {self.element}) outs(%e_{name} : {kind}) -> {kind}",
            f"%{name} = linalg.matmul ins({value}, {given} : {kind}, {weight}) outs(%z_{name} : {kind}) -> {kind}",
        ]
        return f"%{name}"

    def move(self, name: str, value: str, device: int) -> str:
        self.body.append(f"%{name} = flow.tensor.transfer {value} : {self.hidden()} to {self.place(device)}")
        return f"%{name}"

    def add(self, name: str, left: str, right: str) -> str:
        self.body.append(f"%{name} = arith.addf {left}, {right} : {self.hidden()}")
        return f"%{name}"

    def text(self, result: str) -> str:
        kind = self.hidden()
        lines = "\n".join(f"  {line}" for line in [f"%zero = arith.constant 0.0 : {self.element}", *self.body])
        head = ",\n    ".join(self.arguments)
        ends = f"({kind} {{iree.abi.affinity = {self.place(0)}}})"
        return "\n".join(self.globals) + f"\nfunc.func @step({head}) -> {ends} {{\n{lines}\n  return {result} : {kind}\n}}\n"

    def flags(self) -> tuple[str, ...]:
        count = max(self.numbers.get(device, device) for device in range(self.devices)) + 1 + self.shown
        names = [f"part_{n}=" if self.named else "" for n in range(count)]
        if self.mixed_names:
            names[self.random.randrange(1, count)] = "" if self.named else "other="
        return (*(f"--iree-hal-target-device={name}hip[{n}]" for n, name in enumerate(names)), *self.options)


def run_through(model: Model) -> str:
    """The value goes through the devices: in a ring, or from the first to each and back again."""
    value = model.argument("x", model.hidden(), 0)
    for layer in range(model.layers):
        if model.order == "ring":
            for device in range(model.devices):
                here = value if device == 0 else model.move(f"to_{layer}_{device}", value, device)
                value = model.multiply(f"m_{layer}_{device}", here, device)
            value = model.move(f"back_{layer}", value, 0)
        else:
            parts = [
                model.multiply(
                    f"m_{layer}_{device}", value if device == 0 else model.move(f"to_{layer}_{device}", value, device), device
                )
                for device in range(model.devices)
            ]
            for device, part in enumerate(parts[1:], 1):
                home = model.move(f"home_{layer}_{device}", part, 0)
                value = model.add(f"sum_{layer}_{device}", parts[0] if device == 1 else value, home)
    return value


Made = tuple[str, tuple[str, ...], tuple[str, str | None]]


def built(model: Model, spoil: Callable[[Model, str], str] | None = None) -> Made:
    value = run_through(model)
    value = spoil(model, value) if spoil else value
    return model.text(value), model.flags(), model.target


def model_of(seed: str) -> Model:
    random = Random(seed)
    return Model(
        random,
        devices=random.choice([2, 3, 4, 5, 8]),
        layers=random.choice([1, 2, 3, 6]),
        rows=random.choice([1, 4, 17, 32]),
        width=random.choice([24, 48, 100, 128]),
        element=random.choice(["f16", "f32", "bf16"]),
        word=random.choice(["promise", "affinity"]),
        named=random.random() < 0.3,
        order=random.choice(["ring", "star"]),
    )

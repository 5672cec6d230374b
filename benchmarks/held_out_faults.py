"""Healthy sharded programs from a seed, faults planted in them, and healthy programs that look faulty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random


@dataclass
class Model:
    """A program over several devices, built line by line: each layer multiplies on one device and passes the result on."""

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
    numbers: dict[int, int] = field(default_factory=dict)  # device -> its number, if different
    bare: int | None = None  # the device whose weight has no affinity
    weight: int | None = None  # the device whose weight is a constant
    target: tuple[str, str | None] = ("rocm", "gfx942")
    options: list[str] = field(default_factory=list)
    shown: int = 0  # additional devices that the flags declare
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


TYPES = [
    ("f8E4M3FN", "cuda", "sm_90"), ("f8E5M2FNUZ", "cuda", "sm_86"), ("f8E4M3FNUZ", "rocm", "gfx1100"),
    ("f8E5M2", "rocm", "gfx90a"), ("f8E4M3FN", "rocm", "gfx942"), ("bf16", "vmvx", None), ("complex<f32>", "vmvx", None),
    ("f80", "llvm-cpu", None),
]  # fmt: skip


def undeclared(model: Model) -> Made:
    text, flags, target = built(model)
    return text, flags[:-1], target


def unused(model: Model) -> Made:
    model.shown = model.random.randint(1, 2)
    return built(model)


def gap(model: Model) -> Made:
    model.named = False
    hole = model.random.randrange(1, model.devices)
    model.numbers = {device: device + (device >= hole) for device in range(model.devices)}
    return built(model)


def half_named(model: Model) -> Made:
    model.mixed_names = True
    return built(model)


def bare(model: Model) -> Made:
    model.bare = model.random.randrange(1, model.devices)
    return built(model)


def apart(model: Model) -> Made:
    def spoil(one: Model, value: str) -> str:
        other = one.move("astray", value, one.random.randrange(1, one.devices))
        return one.add("mixture", value, other)

    return built(model, spoil)


def again(model: Model) -> Made:
    return built(model, lambda one, value: one.move("once_more", value, 0))


def constant(model: Model) -> Made:
    model.weight = model.random.randrange(1, model.devices)
    return built(model)


def long(model: Model) -> Made:
    def spoil(one: Model, value: str) -> str:
        for number in range(one.random.randint(20, 60)):
            value = one.move(f"ping_{number}", value, 1)
            value = one.move(f"pong_{number}", value, 0)
        return value

    return built(model, spoil)


def long_updates(model: Model) -> Made:
    def spoil(one: Model, value: str) -> str:
        kind = one.hidden()
        row = one.argument("row", f"tensor<1x{one.width}x{one.element}>", 0)
        for number in range(one.random.randint(36, 90)):
            one.body.append(f"%at_{number} = arith.constant {number % one.rows} : index")
            one.body.append(f"%column_{number} = arith.constant 0 : index")
            one.body.append(
                f"%kept_{number} = flow.tensor.update {row}, {value}[%at_{number}, %column_{number}]"
                f" : tensor<1x{one.width}x{one.element}> -> {kind}"
            )
            value = f"%kept_{number}"
        return value

    return built(model, spoil)


def reshaped(model: Model) -> Made:
    def spoil(one: Model, value: str) -> str:
        flat = f"tensor<{one.rows * one.width}x{one.element}>"
        one.body.append(f"%flat = tensor.collapse_shape {value} [[0, 1]] : {one.hidden()} into {flat}")
        one.body.append(
            f"%again = tensor.expand_shape %flat [[0, 1]] output_shape [{one.rows}, {one.width}] : {flat} into {one.hidden()}"
        )
        return "%again"

    return built(model, spoil)


def open_ended(model: Model) -> Made:
    def spoil(one: Model, value: str) -> str:
        kind, weight = f"tensor<?x{one.width}x{one.element}>", f"tensor<{one.width}x{one.width}x{one.element}>"
        a, w, c = one.argument("a", kind, 0), one.argument("w", weight, 0), one.argument("c", kind, 0)
        one.body.append(f"%open = linalg.matmul ins({a}, {w} : {kind}, {weight}) outs({c} : {kind}) -> {kind}")
        one.body.append(f"%part = tensor.extract_slice %open[0, 0] [{one.rows}, {one.width}] [1, 1] : {kind} to {one.hidden()}")
        return one.add("both", value, "%part")

    return built(model, spoil)


def vector(model: Model) -> Made:
    def spoil(one: Model, value: str) -> str:
        kind = f"vector<{one.random.choice([64, 96])}x{one.random.choice([64, 80])}x{one.element}>"
        one.body.append(f"%large = arith.constant dense<1.0> : {kind}")
        one.body.append("%origin = arith.constant 0 : index")
        one.body.append(f"%wide = tensor.empty() : {kind.replace('vector', 'tensor')}")
        one.body.append(
            f"%put = vector.transfer_write %large, %wide[%origin, %origin] : {kind}, {kind.replace('vector', 'tensor')}"
        )
        one.body.append("%one = tensor.extract %put[%origin, %origin] : " + kind.replace("vector", "tensor"))
        one.body.append(f"%spread = tensor.splat %one : {one.hidden()}")
        return one.add("with_it", value, "%spread")

    return built(model, spoil)


def lacking(model: Model) -> Made:
    """A small program of its own, for one device: of the sharded ones most are made for a GPU that has the type."""
    element, backend, chip = model.random.choice(TYPES)
    return _plain(model, element, backend, chip)


def wide(model: Model) -> Made:
    return _plain(model, "f64", model.random.choice(["rocm", "llvm-cpu", "cuda"]), None)


def _plain(model: Model, element: str, backend: str, chip: str | None) -> Made:
    kind, option = f"tensor<{model.rows}x{model.width}x{element}>", (f"--iree-hal-target-backends={backend}",)
    operation = "complex.mul" if element.startswith("complex") else "arith.mulf"
    step = f"%r = {operation} %v, %v : {element}"
    same = "affine_map<(i, j) -> (i, j)>"
    traits = f'{{indexing_maps = [{same}, {same}], iterator_types = ["parallel", "parallel"]}}'
    return (
        f"func.func @f(%x: {kind}) -> {kind} {{\n  %e = tensor.empty() : {kind}\n"
        f"  %y = linalg.generic {traits}"
        f" ins(%x : {kind}) outs(%e : {kind}) {{\n  ^bb0(%v: {element}, %o: {element}):\n    {step}\n"
        f"    linalg.yield %r : {element}\n  }} -> {kind}\n  return %y : {kind}\n}}\n",
        option,
        (backend, chip),
    )


def plain_twin(model: Model) -> Made:
    return _plain(model, "f32", "llvm-cpu", None)


def knotty(model: Model) -> Made:
    """Return a healthy program with constructs that resemble faults: a loop, a call, a short chain of updates, a constant on
    the first device, and a value that is transferred and back.
    """

    def spoil(one: Model, value: str) -> str:
        kind = one.hidden()
        row = one.argument("row", f"tensor<1x{one.width}x{one.element}>", 0)
        one.body += [
            "%first = arith.constant 0 : index",
            "%second = arith.constant 1 : index",
            "%many = arith.constant 7 : index",
            f"%bias = arith.constant dense<0.5> : {kind}",
            f"%biased = arith.addf {value}, %bias : {kind}",
            f"%looped = scf.for %i = %first to %many step %second iter_args(%was = %biased) -> ({kind}) {{",
            f"  %more = arith.mulf %was, %biased : {kind}",
            f"  scf.yield %more : {kind}",
            "}",
            f"%called = func.call @helper(%looped) : ({kind}) -> {kind}",
        ]
        value = "%called"
        for number in range(3):
            kinds = f"tensor<1x{one.width}x{one.element}> -> {kind}"
            one.body.append(f"%kept_{number} = flow.tensor.update {row}, {value}[%first, %first] : {kinds}")
            value = f"%kept_{number}"
        there = one.move("there", value, one.devices - 1)
        return one.add("sum", value, one.move("home", there, 0))

    text, flags, target = built(model, spoil)
    kind = model.hidden()
    helper = f"func.func private @helper(%a: {kind}) -> {kind} {{\n  %b = math.exp %a : {kind}\n  return %b : {kind}\n}}\n"
    return helper + text, flags, target


#: fault -> the rule that finds it, how to plant it, and its healthy twin
FAULTS: dict[str, tuple[str, Callable[[Model], Made], Callable[[Model], Made]]] = {
    "one flag too few": ("undeclared-device", undeclared, built),
    "one flag too many": ("unused-device", unused, built),
    "a number left out": ("device-gap", gap, built),
    "names for some": ("device-names", half_named, built),
    "a weight without affinity": ("missing-affinity", bare, built),
    "two devices in one sum": ("mixed-devices", apart, built),
    "moved to where it is": ("redundant-transfer", again, built),
    "a constant weight": ("unplaced-constant", constant, built),
    "to and fro": ("long-chain", long, built),
    "rows written one by one": ("long-chain", long_updates, built),
    "flattened and back": ("undone-reshape", reshaped, built),
    "rows unknown": ("dynamic-dimension", open_ended, built),
    "a large vector": ("large-vector", vector, built),
    "a type the chip lacks": ("missing-type", lacking, plain_twin),
    "64 bit floats": ("demoted-type", wide, plain_twin),
}

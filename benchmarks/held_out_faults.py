"""Faults planted in the sharded programs of held_out_models.py, and healthy programs that look like them."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.held_out_models import Made, Model, built

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
    """A healthy program with what may look like a fault: a loop, a call, a short chain of updates, a constant on the first
    device, and a value that is there and back again before it is added.
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


#: fault -> the rule that is to find it, how it is planted, and what its healthy twin is
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

"""The lint rules: devices, affinities, chains of in-place operations, shapes and
element types.

The longer a chain, the more iterations the affinity solver needs. Only a compile shows
how many.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from math import prod

from triage.compilers.iree.devices import (
    declaring_options,
    device_order,
    is_gpu,
    position_of,
)
from triage.compilers.iree.lint.program import (
    LOOPS,
    LintProgram,
    LintWords,
    is_tensor,
    steps_of,
)
from triage.compilers.linter import LintFinding, LintRule, ProgramDevice, Severity
from triage.mlir import Operation, SourcePosition, Value

_MAX_FLAGS = 2  # in a message; the suggested flags are listed next to the findings too
_MAX_CHAIN = 32  # the solver's original limit of iterations
_MAX_ELEMENTS = 2048  # of a vector: 8 KiB of f32
_NEAR = 4  # operations between two reshapes
_COLLAPSE, _EXPAND = "tensor.collapse_shape", "tensor.expand_shape"
_GENERIC = "linalg.generic"
_VECTOR = re.compile(r"vector<(\d{1,18}(?:x\d{1,18})*)x[a-z]+\w*>")
_ELEMENT = re.compile(
    r"(?:tensor|vector)<(?:[\d?x]*x)?(complex<\w+>|[a-z]\w*)|^(complex<\w+>|[a-z]\w*)$"
)

Found = Iterator[
    tuple[str, SourcePosition | None] | tuple[str, SourcePosition | None, Severity]
]
"""A message and its position, with a severity that differs from the rule's."""


def findings(program: LintProgram) -> tuple[LintFinding, ...]:
    """Apply all rules to a program."""
    return tuple(
        LintFinding(
            rule.name,
            severity[0] if severity else rule.severity,
            text,
            position=position,
        )
        for rule, check in CHECKS.items()
        for text, position, *severity in check(program)
    )


def devices_of(program: LintProgram) -> tuple[ProgramDevice, ...]:
    """Return all devices that are declared or referenced, declared ones first."""
    if program.declared_devices:
        declared = program.declared_devices.devices
    else:
        declared = {}
    counts = Counter(name for name, _ in program.references)
    first = dict(reversed(program.references))
    names = dict.fromkeys([*declared, *sorted(counts, key=device_order)])
    return tuple(
        ProgramDevice(name, declared.get(name), counts[name], position=first.get(name))
        for name in names
    )


def flags_for(program: LintProgram) -> tuple[str, ...]:
    """Return the options that declare all devices; nothing if all are declared, or if
    the module declares any itself.
    """
    devices = devices_of(program)
    wanted = [
        device.name
        for device in devices
        if device.references or (device.declared or "").startswith("-")
    ]
    rejected = (
        program.declared_devices is not None
        and program.declared_devices.problem is not None
    )
    if (
        not wanted
        or program.devices_of_module
        or (all(device.declared for device in devices) and not rejected)
    ):
        return ()
    return declaring_options(
        sorted(wanted, key=device_order), program.backend, program.options
    )


def undeclared_devices(program: LintProgram) -> Found:
    """A device that the program uses but nothing declares."""
    missing = [device for device in devices_of(program) if device.declared is None]
    flags = [flag for flag in flags_for(program) if flag not in program.options]
    if 0 < len(flags) <= _MAX_FLAGS:
        hint = f"; add `{' '.join(flags)}`"
    else:
        hint = ""
    if program.declared_devices is None:
        if missing:
            names = ", ".join(f"@{device.name}" for device in missing)
            yield (
                f"the program uses {names}, but no flag declares devices{hint}",
                missing[0].position,
                Severity.WARNING,
            )
        return
    if program.declared_devices.problem:
        return
    option_of = program.declared_devices.devices
    if option_of:
        declared = f"declared: {', '.join(f'@{name}' for name in option_of)}"
    else:
        declared = "no device is declared"
    for device in missing:
        if device.references == 1:
            count = "once"
        else:
            count = f"{device.references} times"
        text = f"@{device.name} is used {count} but not declared ({declared})"
        position = position_of(device.name)
        if position is not None and any(
            f"[{position}]" in option for option in option_of.values()
        ):
            text += (
                "; unnamed devices are numbered by position, not by the number in "
                "brackets"
            )
        sole = program.declared_devices.sole
        if sole:
            text += f"; remove `{sole}`, which disables flags that declare devices"
        yield text + hint, device.position


def unused_devices(program: LintProgram) -> Found:
    """A device that is declared but never used."""
    devices = devices_of(program)
    used = [position_of(device.name) or 0 for device in devices if device.references]
    # positions count: those before the last one in use must be declared, too
    needed = range(1, max(used, default=0))
    # the first one is the default for values without an affinity
    for device in devices[1:]:
        if (
            device.declared
            and not device.references
            and position_of(device.name) not in needed
        ):
            yield (
                f"@{device.name} is declared by `{device.declared}` but not used",
                None,
            )


def device_gaps(program: LintProgram) -> Found:
    """Find numbered devices that nothing uses, although a higher number is used."""
    first_uses = {
        position_of(name): source for name, source in reversed(program.references)
    }
    used = sorted(position for position in first_uses if position is not None)
    holes = [
        position for position in range(1, max(used, default=0)) if position not in used
    ]
    if holes:
        listed = ", ".join(f"@__device_{position}" for position in holes)
        text = (
            f"the program uses @__device_{used[-1]} but not {listed}; flags count "
            "positions, so declare these devices too"
        )
        yield text, first_uses[used[-1]]


def rejected_flags(program: LintProgram) -> Found:
    """Flags that name some devices but not all."""
    if program.declared_devices and program.declared_devices.problem:
        yield program.declared_devices.problem, None


def missing_affinities(program: LintProgram) -> Found:
    """An argument or result without an affinity in a function where others have one."""
    for function, ports in program.ports.items():
        if function.attribute("sym_visibility") == '"private"' or not any(
            port.device for port in ports
        ):
            continue
        for port in (
            each for each in ports if each.device is None and is_tensor(each.value)
        ):
            if port.kind == "argument":
                devices, verb = program.devices_using.get(port.value, set()), "used"
            else:
                if port.value in program.device_of_value:
                    devices = {program.device_of_value[port.value]}
                else:
                    devices = set()
                verb = "computed"
            if devices:
                where = f"; it is {verb} on {_names(devices)}"
            else:
                where = ""
            text = (
                f"{port.kind} {port.index} of @{function.symbol} has no affinity but "
                f"others have{where}"
            )
            # A value that belongs on the first device ends up there anyway.
            yield (
                text,
                port.position,
                Severity.WARNING
                if devices - {_first_device(program)}
                else Severity.ADVICE,
            )


def redundant_transfers(program: LintProgram) -> Found:
    """A transfer to the device that already holds the value."""
    for operation in program.operations:
        if operation.name in program.words.transfers and operation.operands:
            device = program.device_of_value.get(operation.operands[0])
            if device is not None and device == program.device_of_value.get(
                operation.results[0]
            ):
                yield (
                    f"this transfer has no effect: the value is already on @{device}",
                    operation.position,
                )


def mixed_devices(program: LintProgram) -> Found:
    """Operands on different devices, or a result on the wrong device, without a
    transfer.
    """
    for operation in program.operations:
        devices = {
            program.device_of_value[value]
            for value in program.uses(operation)
            if value in program.device_of_value
        }
        if len(devices) > 1 and not program.only_carries(operation):
            text = (
                f"{operation.name} reads values on {_names(devices)} without a "
                "transfer to one device"
            )
            yield text, operation.position
    for function, ports in program.ports.items():
        for port in ports:
            actual = program.device_of_value.get(port.value)
            if (
                port.kind == "result"
                and port.device
                and actual
                and actual != port.device
            ):
                text = (
                    f"result {port.index} of @{function.symbol} belongs on "
                    f"@{port.device} but is on @{actual}"
                )
                yield f"{text}, without a transfer", port.position


def unplaced_constants(program: LintProgram) -> Found:
    """A constant tensor without an affinity that is used beyond the first device."""
    words, module = program.words, program.module.body.operations
    mutable = {
        f"@{operation.symbol}"
        for operation in module
        if operation.attribute("is_mutable") is not None
    }
    if not program.device_of_value:
        return
    first = _first_device(program)
    for operation in program.operations:
        is_load = (
            operation.name in words.loads
            and operation.attribute("global") not in mutable
        )
        if not is_load and operation.name not in words.constants:
            continue
        for value in operation.results:
            devices = program.devices_using.get(value, set())
            if value not in program.device_of_value and devices - {first}:
                text = (
                    f"a constant without an affinity is used on {_names(devices)}; "
                    "each device needs a copy"
                )
                yield text, operation.position


def _first_device(program: LintProgram) -> str:
    if program.declared_devices:
        return next(iter(program.declared_devices.devices), "__device_0")
    return "__device_0"


def _names(devices: Collection[str]) -> str:
    return " and ".join(f"@{name}" for name in sorted(devices))


def longest_chain(program: LintProgram) -> tuple[int, SourcePosition | None]:
    """Return the length of the longest chain of in-place operations, and the position
    of the last of them, if that is known.
    """
    words, longest, end = program.words, 0, None
    growing = {*LOOPS, *words.passes_on, *words.stores, *words.updates}
    for function in program.functions:
        # the longest chain to each value, and to each global, by its name; the chain of
        # a global ends with the function
        lengths: dict[Value | str, int] = {}
        for operation, passed in steps_of(function.regions[0]):
            if operation is None:
                for source, target in passed:
                    length = lengths.get(source, 0)
                    lengths[target] = max(lengths.get(target, 0), length)
                continue
            added = 1 if operation.name in growing else 0
            for start, result in (*passed, *_links(words, operation)):
                length = lengths.get(start, 0) + added
                lengths[result] = max(lengths.get(result, 0), length)
                if length > longest:
                    longest, end = length, operation.position
    return longest, end


def _links(
    words: LintWords, operation: Operation
) -> Iterator[tuple[Value | str, Value | str]]:
    """Yield what an operation turns into what: a value that it stores into its global,
    a global into the value that it loads, a value into its update in place.
    """
    name = operation.attribute("global")
    if name and operation.name in words.stores:
        yield from ((source, name) for source in operation.operands[:1])
    if name and operation.name in words.loads:
        yield from ((name, target) for target in operation.results[:1])
    index = words.updates.get(operation.name)
    if index is not None:
        source = operation.operands[index]
        yield from ((source, target) for target in operation.results)


def long_chains(program: LintProgram) -> Found:
    """More than 32 in-place operations in a row."""
    length, end = longest_chain(program)
    # advice: the shape of a program does not determine the number of iterations
    if length > _MAX_CHAIN:
        text = (
            f"this is the last of {length} in-place operations in a row; the affinity "
            "solver walks the whole chain"
        )
        yield (
            (
                f"{text} and gives up after a number of iterations that differs "
                "between releases"
            ),
            end,
        )


def undone_reshapes(program: LintProgram) -> Found:
    """A collapse_shape and an expand_shape that undo each other, with nothing but
    elementwise operations in between.
    """
    producers = {
        value: operation
        for operation in program.operations
        for value in operation.results
    }
    for operation in program.operations:
        if operation.name in (_COLLAPSE, _EXPAND):
            first = _opposite_reshape(program, operation, producers)
        else:
            first = None
        if first is not None:
            text = (
                f"this {operation.name} undoes the {first.name} of line {first.line}; "
                "releases differ in what they fuse"
            )
            yield (
                (
                    f"{text} across such a pair. Compute on one of the two shapes if "
                    "the model allows it"
                ),
                operation.position,
            )


def _opposite_reshape(
    program: LintProgram, operation: Operation, producers: Mapping[Value, Operation]
) -> Operation | None:
    """Return the opposite reshape that this one undoes, with at most a few elementwise
    operations in between; None if there is none.
    """
    value = operation.operands[0]
    for _ in range(_NEAR + 1):
        if value not in producers:
            return None
        source = producers[value]
        if source.name in (_COLLAPSE, _EXPAND) and source.name != operation.name:
            same_type = source.operands[0].type == operation.results[0].type
            if same_type and source.attribute("reassociation") == operation.attribute(
                "reassociation"
            ):
                return source
            return None
        is_elementwise = source.name.startswith(
            ("arith.", "math.", "linalg.elementwise")
        )
        if not is_elementwise and (source.name != _GENERIC or _has_reduction(source)):
            return None
        used = [
            each
            for each in program.uses(source)
            if each.type == value.type and each in producers
        ]
        value = next(
            (each for each in used if producers[each].name != "tensor.empty"), value
        )
    return None


def _has_reduction(operation: Operation) -> bool:
    return "reduction" in (operation.attribute("iterator_types") or "")


def dynamic_dimensions(program: LintProgram) -> Found:
    """An attention, contraction, convolution or padding with an unknown dimension, on a
    GPU.
    """
    if not is_gpu(program.backend):
        return
    for operation in program.module.walk():
        is_contraction = (
            operation.name == _GENERIC
            and _has_reduction(operation)
            and len(program.uses(operation)) > 2
        )
        if is_contraction or operation.name in program.words.tiled:
            types = [value.type for value in (*operation.operands, *operation.results)]
            # Also of batches and rows: all affect padding and tile sizes.
            unknown = [
                type_ for type_ in types if type_.startswith("tensor<") and "?" in type_
            ]
            if unknown:
                text = (
                    f"{operation.name} uses {unknown[0]}, which has an unknown "
                    "dimension; tile sizes and padding are chosen"
                )
                advice = (
                    "Compile the model with static shapes to see whether that matters"
                )
                yield f"{text} without it. {advice}", operation.position


def large_vectors(program: LintProgram) -> Found:
    """A vector of more than 2048 elements in the program."""
    first = {
        value.type: operation
        for operation in reversed([*program.module.walk()])
        for value in operation.results
    }
    for type_, operation in first.items():
        matched = _VECTOR.match(type_)
        if matched:
            count = prod(map(int, matched[1].split("x")))
        else:
            count = 0
        if count > _MAX_ELEMENTS:
            text = (
                f"{type_} has {count} elements; code generators unroll vectors and "
                "reject or spill large ones"
            )
            yield text, operation.position


def missing_types(program: LintProgram) -> Found:
    """An element type that the backend or the chip is known to lack."""
    for missing in program.words.missing_types:
        if program.backend not in missing.backends or (
            missing.unless and missing.unless not in program.options
        ):
            continue
        if missing.chips and (
            program.chip is None or not missing.chips.fullmatch(program.chip)
        ):
            continue
        used = _element_types(program, interface=missing.interface)
        if missing.chips:
            target = f"{program.backend} {program.chip}"
        else:
            target = program.backend
        for name in sorted(missing.types & used.keys()):
            yield f"{name} on {target}: {missing.why}", used[name]


def demoted_types(program: LintProgram) -> Found:
    """64 bit floats, which are computed in 32 bits unless a flag forbids it."""
    used = _element_types(program, interface=False)
    for name, option in program.words.demoted.items():
        if name in used and option not in program.options:
            yield (
                (
                    f"{name} is computed in a narrower type, which changes results; "
                    f"pass `{option}` to keep it"
                ),
                used[name],
            )


def _element_types(
    program: LintProgram, *, interface: bool
) -> dict[str, SourcePosition | None]:
    """Map each element type to the position of its first use.

    interface: look at the arguments and results of functions, not at those of
    operations.
    """
    ports = [
        port
        for function in program.functions
        for port in program.ports.get(function, ())
    ]
    types = [
        (port.value.type, port.position)
        for port in ports
        if interface or port.kind == "argument"
    ]
    if not interface:
        types += [
            (value.type, operation.position)
            for operation in program.module.walk()
            for value in operation.results
        ]
    first = dict(reversed(types))
    found: dict[str, SourcePosition | None] = {}
    for text in dict.fromkeys(text for text, _ in types):
        matched = _ELEMENT.match(text)
        if matched:
            found.setdefault(matched[1] or matched[2], first[text])
    return found


CHECKS: Mapping[LintRule, Callable[[LintProgram], Found]] = {
    LintRule(name, severity, check.__doc__ or ""): check
    for name, severity, check in (
        ("undeclared-device", Severity.ERROR, undeclared_devices),
        ("unused-device", Severity.WARNING, unused_devices),
        ("device-gap", Severity.WARNING, device_gaps),
        ("device-names", Severity.ERROR, rejected_flags),
        ("missing-affinity", Severity.WARNING, missing_affinities),
        ("mixed-devices", Severity.WARNING, mixed_devices),
        ("redundant-transfer", Severity.ADVICE, redundant_transfers),
        ("unplaced-constant", Severity.ADVICE, unplaced_constants),
        ("long-chain", Severity.ADVICE, long_chains),
        ("undone-reshape", Severity.ADVICE, undone_reshapes),
        ("dynamic-dimension", Severity.ADVICE, dynamic_dimensions),
        ("large-vector", Severity.WARNING, large_vectors),
        ("missing-type", Severity.WARNING, missing_types),
        ("demoted-type", Severity.ADVICE, demoted_types),
    )
}
"""The check of each rule, in documentation order."""

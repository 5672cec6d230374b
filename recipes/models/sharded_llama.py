"""One decoding step of a toy LLaMA, tensor-parallel over several devices, with its KV-cache handling.

Every layer is a feed-forward block whose weights are split over the devices: the activation is sent to
each device, multiplied with both shards there, and the partial sums are gathered on device 0. After
the layers comes a chain that works on the cache in place, the part that the compiler's analyses of
device affinity have to walk from end to end:

  none      no chain
  updates   LENGTH updates of the cache, one after the other; the result belongs on device 1
  for       LENGTH scf.for loops, each of them updating the cache; the result moves to device 1
  while     the same with scf.while
  globals   LENGTH mutable globals in a ring: each is updated by a loop and stored into the next one
  kv-cache  every device writes the new row into its own cache of each of LENGTH layers, in place in
            the caller's buffer, and reads the row back for an all-gather
  barriers  LENGTH flow.tensor.barrier on the cache, which keep it on device 0
  opaque    LENGTH util.optimization_barrier on the cache; the result belongs on device 1
"""

import argparse

CHAINS = [
    "none",
    "updates",
    "for",
    "while",
    "globals",
    "kv-cache",
    "barriers",
    "opaque",
]
HIDDEN, INNER, TOKENS = 64, 128, 16
ROW = f"tensor<1x{HIDDEN}xf32>"
CACHE = f"tensor<{TOKENS}x{HIDDEN}xf32>"


class Function:
    """The text of one function, built up from its start."""

    def __init__(self, reference):
        self.reference = reference
        self.arguments, self.results, self.body, self.globals = [], [], [], []

    def device(self, index):
        return f"#hal.device.{self.reference}<@__device_{index}>"

    def argument(self, name, kind, *attributes, device=None, first=False):
        if device is not None:
            attributes = (f"iree.abi.affinity = {self.device(device)}", *attributes)
        text = f"%{name}: {kind}" + (
            f" {{{', '.join(attributes)}}}" if attributes else ""
        )
        self.arguments.insert(0 if first else len(self.arguments), text)
        return f"%{name}"

    def result(self, value, kind, device=None):
        attribute = (
            "" if device is None else f" {{iree.abi.affinity = {self.device(device)}}}"
        )
        self.results.append((value, kind, attribute))

    def emit(self, *lines):
        self.body.extend("  " + line for line in lines)

    def transfer(self, name, value, kind, device):
        self.emit(
            f"%{name} = flow.tensor.transfer {value} : {kind} to {self.device(device)}"
        )
        return f"%{name}"

    def matmul(self, name, left, right, rows, inner, columns):
        kind = f"tensor<{rows}x{columns}xf32>"
        self.emit(
            f"%{name}_empty = tensor.empty() : {kind}",
            f"%{name}_zero = linalg.fill ins(%zero : f32) outs(%{name}_empty : {kind}) -> {kind}",
            f"%{name} = linalg.matmul ins({left}, {right} : tensor<{rows}x{inner}xf32>, tensor<{inner}x{columns}xf32>)"
            f" outs(%{name}_zero : {kind}) -> {kind}",
        )
        return f"%{name}"

    def add(self, name, left, right):
        self.emit(f"%{name} = arith.addf {left}, {right} : {ROW}")
        return f"%{name}"

    def __str__(self):
        results = ", ".join(kind + attribute for _, kind, attribute in self.results)
        values, kinds = (
            ", ".join(v for v, _, _ in self.results),
            ", ".join(k for _, k, _ in self.results),
        )
        head = f"func.func @decode(\n    {(',' + chr(10) + '    ').join(self.arguments)}) -> ({results}) {{"
        return "\n".join(
            [*self.globals, head, *self.body, f"  return {values} : {kinds}", "}", ""]
        )


def layer(f, number, row, devices):
    """One feed-forward block: row in, row out, both on device 0."""
    shard, partial = INNER // devices, None
    for d in range(devices):
        at = f"{number}_{d}"
        up = f.argument(f"up_{at}", f"tensor<{HIDDEN}x{shard}xf32>", device=d)
        down = f.argument(f"down_{at}", f"tensor<{shard}x{HIDDEN}xf32>", device=d)
        here = f.transfer(f"x_{at}", row, ROW, d)
        inner = f.matmul(f"inner_{at}", here, up, 1, HIDDEN, shard)
        outer = f.matmul(f"outer_{at}", inner, down, 1, shard, HIDDEN)
        back = f.transfer(f"back_{at}", outer, ROW, 0)
        partial = back if partial is None else f.add(f"partial_{at}", partial, back)
    return f.add(f"row_{number}", row, partial)


def updated(row, cache, position):
    return f"flow.tensor.update {row}, {cache}[{position}, %c0] : {ROW} -> {cache} as {CACHE}"


def for_loop(f, name, row, cache):
    f.emit(
        f"%{name} = scf.for %i = %c0 to %position step %c1 iter_args(%cache_i = {cache}) -> ({CACHE}) {{",
        f"  %next = {updated(row, '%cache_i', '%i')}",
        f"  scf.yield %next : {CACHE}",
        "}",
    )
    return f"%{name}"


def while_loop(f, name, row, cache):
    f.emit(
        f"%{name}_end, %{name} = scf.while (%i = %c0, %cache_i = {cache}) : (index, {CACHE}) -> (index, {CACHE}) {{",
        "  %more = arith.cmpi slt, %i, %position : index",
        f"  scf.condition(%more) %i, %cache_i : index, {CACHE}",
        "} do {",
        f"^bb0(%i: index, %cache_i: {CACHE}):",
        f"  %next = {updated(row, '%cache_i', '%i')}",
        "  %after = arith.addi %i, %c1 : index",
        f"  scf.yield %after, %next : index, {CACHE}",
        "}",
    )
    return f"%{name}"


def update(f, name, row, cache):
    f.emit(f"%{name} = {updated(row, cache, '%position')}")
    return f"%{name}"


def barrier(f, name, row, cache):
    f.emit(f"%{name} = flow.tensor.barrier {cache} : {CACHE} on {f.device(0)}")
    return f"%{name}"


def opaque(f, name, row, cache):
    f.emit(f"%{name} = util.optimization_barrier {cache} : {CACHE}")
    return f"%{name}"


def chain_in_sequence(f, length, row, devices, link, pinned):
    """length links, each on the result of the one before. pinned: the interface says where the ends are."""
    cache = f.argument("cache", CACHE, device=0 if pinned else None, first=True)
    for k in range(length):
        cache = link(f, f"cache_{k}", row, cache)
    if devices > 1 and link is not barrier:
        cache = f.transfer("moved", cache, CACHE, 1)
    f.result(cache, CACHE, device=1 if pinned else None)


def chain_of_globals(f, length, row, devices):
    f.globals = [
        f"util.global private mutable @cache_{k} : {CACHE}" for k in range(length)
    ]
    for k in range(length):
        f.emit(f"%cache_{k} = util.global.load @cache_{k} : {CACHE}")
        new = for_loop(f, f"new_{k}", row, f"%cache_{k}")
        f.emit(f"util.global.store {new}, @cache_{(k + 1) % length} : {CACHE}")
        f.emit(
            f"%seen_{k} = tensor.extract_slice {new}[0, 0] [1, {HIDDEN}] [1, 1] : {CACHE} to {ROW}"
        )
        row = f"%seen_{k}"
    f.result(f.transfer("moved", row, ROW, 1) if devices > 1 else row, ROW)


def chain_of_caches(f, length, row, devices):
    rows = [f.transfer(f"new_{d}", row, ROW, d) for d in range(devices)]
    for k in range(length):
        for d in range(devices):
            at = f"{k}_{d}"
            # iree.abi.output: the result is written into the very buffer that came in.
            cache = f.argument(
                f"cache_{at}",
                CACHE,
                f"iree.abi.output = {k * devices + d} : index",
                device=d,
            )
            new = update(f, f"updated_{at}", rows[d], cache)
            f.result(new, CACHE, device=d)
        gathered = []
        for d in range(devices):
            total = None
            for e in range(devices):
                at = f"{k}_{d}_{e}"
                f.emit(
                    f"%seen_{at} = tensor.extract_slice %updated_{k}_{e}[0, 0] [1, {HIDDEN}] [1, 1] : {CACHE} to {ROW}"
                )
                sent = (
                    f.transfer(f"sent_{at}", f"%seen_{at}", ROW, d)
                    if e != d
                    else f"%seen_{at}"
                )
                total = sent if total is None else f.add(f"total_{at}", total, sent)
            gathered.append(total)
        rows = gathered
    f.result(rows[0], ROW, device=0)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--devices", type=int, default=2, help="devices the program uses"
    )
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--chain", choices=CHAINS, default="none")
    parser.add_argument("--length", type=int, default=1, help="links of the chain")
    parser.add_argument(
        "--reference",
        choices=["promise", "affinity"],
        default="promise",
        help="how a device is named: to be resolved (promise), or as a symbol that exists (affinity)",
    )
    args = parser.parse_args()

    f = Function(args.reference)
    row = f.argument("row", ROW)
    f.argument("position", "index")
    f.emit(
        "%zero = arith.constant 0.0 : f32",
        "%c0 = arith.constant 0 : index",
        "%c1 = arith.constant 1 : index",
    )
    for number in range(args.layers):
        row = layer(f, number, row, args.devices)
    match args.chain:
        case "none":
            f.result(row, ROW)
        case "updates":
            chain_in_sequence(f, args.length, row, args.devices, update, pinned=True)
        case "for":
            chain_in_sequence(f, args.length, row, args.devices, for_loop, pinned=False)
        case "while":
            chain_in_sequence(
                f, args.length, row, args.devices, while_loop, pinned=False
            )
        case "barriers":
            chain_in_sequence(f, args.length, row, args.devices, barrier, pinned=False)
        case "opaque":
            chain_in_sequence(f, args.length, row, args.devices, opaque, pinned=True)
        case "globals":
            chain_of_globals(f, args.length, row, args.devices)
        case "kv-cache":
            chain_of_caches(f, args.length, row, args.devices)
    print(f, end="")


if __name__ == "__main__":
    main()

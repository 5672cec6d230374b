"""Programs that no recipe holds: name -> text."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.held_out_builders import (
    S,
    arg_max,
    attention,
    chained,
    complex_product,
    contraction,
    dequantized,
    gathered_heads,
    grouped,
    looked_up,
    named,
    of_unknown_size,
    padded_then,
    pooled,
    reduced,
    scaled_conv,
    soft_max,
    summed_rows,
    transposed_sum,
    weight_gradient,
)
from benchmarks.held_out_operations import OPERATIONS


def _small() -> Iterator[tuple[str, str]]:
    for low, acc in (("f16", "f32"), ("f32", "f32"), ("i8", "i32"), ("bf16", "f32")):
        yield f"matmul-1000-{low}", named("linalg.matmul", [1000, 600], [600, 1536], [1000, 1536], low, acc)
        yield f"transposed-{low}", contraction([2048, 1280], [768, 1280], [2048, 768], ("ac", "bc", "ab"), "ppr", low, acc)
        yield (
            f"batched-{low}",
            contraction([12, 384, 64], [12, 384, 64], [12, 384, 384], ("abd", "acd", "abc"), "pppr", low, acc),
        )
        yield f"vector-{low}", contraction([4096], [11008, 4096], [11008], ("b", "ab", "a"), "pr", low, acc)
        yield (
            f"nhwc-3x3-{low}",
            named("linalg.conv_2d_nhwc_hwcf", [2, 30, 30, 96], [3, 3, 96, 160], [2, 14, 14, 160], low, acc, S % (1, 2, 2, 2)),
        )
        yield (
            f"nchw-1x1-{low}",
            named("linalg.conv_2d_nchw_fchw", [1, 48, 33, 33], [72, 48, 1, 1], [1, 72, 33, 33], low, acc, S % (1, 2, 1, 2)),
        )
        yield (
            f"depthwise-{low}",
            named(
                "linalg.depthwise_conv_2d_nhwc_hwc",
                [1, 58, 58, 144],
                [3, 3, 144],
                [1, 56, 56, 144],
                low,
                acc,
                S % (1, 2, 1, 2),
            ),
        )
    yield (
        "dilated-f16",
        named("linalg.conv_2d_nhwc_hwcf", [1, 37, 37, 64], [3, 3, 64, 64], [1, 33, 33, 64], "f16", "f32", S % (2, 2, 1, 2)),
    )
    yield (
        "conv1d-f32",
        named("linalg.conv_1d_ncw_fcw", [2, 80, 1502], [384, 80, 3], [2, 384, 1500], "f32", "f32", S % (1, 1, 1, 1)),
    )
    yield (
        "conv3d-f16",
        named(
            "linalg.conv_3d_ndhwc_dhwcf",
            [1, 10, 18, 18, 32],
            [3, 3, 3, 32, 64],
            [1, 8, 16, 16, 64],
            "f16",
            "f32",
            S % (1, 3, 1, 3),
        ),
    )
    yield (
        "grouped-f16",
        contraction([2, 8, 16, 28, 28], [8, 24, 16], [2, 8, 24, 28, 28], ("abfde", "bcf", "abcde"), "pppppr", "f16", "f32"),
    )
    yield "outer-f32", contraction([1536, 1], [1, 1536], [1536, 1536], ("ac", "cb", "ab"), "ppr", "f32", "f32")
    yield "long-k-f16", contraction([16, 65536], [48, 65536], [16, 48], ("ac", "bc", "ab"), "ppr", "f16", "f32")
    yield "two-reduced-f32", contraction([7, 33, 257], [33, 257, 65], [7, 65], ("acd", "cdb", "ab"), "pprr", "f32", "f32")
    yield "odd-f16", contraction([127, 129], [131, 129], [127, 131], ("ac", "bc", "ab"), "ppr", "f16", "f16")
    square = "%h = math.rsqrt %s : KIND\n    %y = arith.mulf %x, %h : KIND"
    power = "%h = math.exp %s : KIND\n    %y = arith.divf %x, %h : KIND"
    for kind in ("f16", "f32"):
        yield f"norm-last-{kind}", reduced([3, 77, 1000], "ab", "ppr", kind, square)
        yield f"norm-first-{kind}", reduced([513, 64, 30], "bc", "rpp", kind, power)
        yield f"norm-middle-{kind}", reduced([5, 200, 49], "ac", "prp", kind, square)
        yield f"norm-two-{kind}", reduced([2, 32, 15, 15], "ab", "pprr", kind, square)
        yield f"norm-apart-{kind}", reduced([4, 33, 6, 100], "ac", "prpr", kind, power)
        yield f"norm-all-{kind}", reduced([300, 700], "", "rr", kind, power)
        yield f"argmax-{kind}", arg_max(9, 32000, kind)
        yield f"table-{kind}", looked_up(5000, 384, 50, 96, kind)
        yield f"attention-80-{kind}", attention(2, 5, 196, 196, 80, kind)
        yield f"attention-short-{kind}", attention(1, 8, 1, 1024, 64, kind)
        yield f"attention-odd-{kind}", attention(1, 3, 50, 77, 40, kind)
        yield f"transpose-4-{kind}", transposed_sum([6, 35, 48, 20], [0, 2, 3, 1], kind)
        yield f"pool-{kind}", padded_then(pooled(3, 2, kind), [1, 55, 55, 60], 1, 1, [1, 28, 28, 60], kind)
        for bits in ("i4", "i8"):
            yield f"scaled-{bits}-{kind}", dequantized(1536, 24, 128, bits, kind)
    for kind in ("f16", "f32"):
        yield f"dynamic-m-{kind}", of_unknown_size("?", 512, 320, kind)
        yield f"dynamic-k-{kind}", of_unknown_size(96, "?", 160, kind)
        yield f"dynamic-all-{kind}", of_unknown_size("?", "?", "?", kind)
        yield f"dynamic-rows-{kind}", summed_rows("?", 999, kind)
        yield f"dynamic-sum-{kind}", summed_rows(33, "?", kind)


def _large() -> Iterator[tuple[str, str]]:
    for low, acc in (("f32", "f32"), ("f16", "f32"), ("f16", "f16")):
        mark = f"{low}-{acc}"
        yield f"square-2048-{mark}", named("linalg.matmul", [2048, 2048], [2048, 2048], [2048, 2048], low, acc)
        yield f"wide-{mark}", named("linalg.matmul", [512, 8192], [8192, 14336], [512, 14336], low, acc)
        yield f"batch-16-{mark}", named("linalg.batch_matmul", [16, 1024, 256], [16, 256, 1024], [16, 1024, 1024], low, acc)
        yield (
            f"nchw-3x3-{mark}",
            named("linalg.conv_2d_nchw_fchw", [4, 128, 58, 58], [256, 128, 3, 3], [4, 256, 56, 56], low, acc, S % (1, 2, 1, 2)),
        )
        yield (
            f"nchw-strided-{mark}",
            named("linalg.conv_2d_nchw_fchw", [8, 3, 230, 230], [64, 3, 7, 7], [8, 64, 112, 112], low, acc, S % (1, 2, 2, 2)),
        )
        yield (
            f"nhwc-large-{mark}",
            named("linalg.conv_2d_nhwc_hwcf", [8, 34, 34, 320], [3, 3, 320, 640], [8, 32, 32, 640], low, acc, S % (1, 2, 1, 2)),
        )
        yield (
            f"nhwc-odd-{mark}",
            named("linalg.conv_2d_nhwc_hwcf", [1, 19, 19, 37], [3, 3, 37, 51], [1, 17, 17, 51], low, acc, S % (1, 2, 1, 2)),
        )
    yield (
        "conv3d-large-f32",
        named(
            "linalg.conv_3d_ndhwc_dhwcf",
            [1, 18, 34, 34, 64],
            [3, 3, 3, 64, 64],
            [1, 16, 32, 32, 64],
            "f32",
            "f32",
            S % (1, 3, 1, 3),
        ),
    )
    yield (
        "batched-weights-f32",
        contraction([64, 512, 32], [64, 32, 96], [64, 512, 96], ("abd", "adc", "abc"), "pppr", "f32", "f32"),
    )
    yield "far-apart-f16", contraction([48, 6, 128, 80], [48, 6, 80], [48, 128], ("acbd", "acd", "ab"), "pprr", "f16", "f32")
    for kind in ("f16", "f32"):
        yield f"softmax-last-{kind}", soft_max([48, 2, 96, 96], 3, kind)
        yield f"softmax-middle-{kind}", soft_max([24, 577, 40], 1, kind)
        yield f"softmax-first-{kind}", soft_max([131, 70], 0, kind)
        yield f"softmax-long-{kind}", soft_max([2, 65000], 1, kind)
        yield (
            f"channels-{kind}",
            reduced([4, 48, 40, 40], "acd", "prpp", kind, "%h = math.rsqrt %s : KIND\n    %y = arith.mulf %x, %h : KIND"),
        )
        yield (
            f"places-{kind}",
            reduced([2, 20, 56, 56], "b", "rprr", kind, "%h = math.exp %s : KIND\n    %y = arith.divf %x, %h : KIND"),
        )
        yield f"groups-{kind}", grouped(2, 16, 4, 12, 28, 3, kind, reshaped=False)
        yield f"groups-reshaped-{kind}", grouped(1, 32, 8, 8, 28, 3, kind, reshaped=True)
        yield f"groups-large-{kind}", grouped(1, 4, 96, 64, 56, 5, kind, reshaped=True)
        yield f"scaled-conv-{kind}", scaled_conv(28, 64, 128, kind)
        yield f"chained-{kind}", chained(256, 192, 640, 72, kind)
        yield f"dynamic-odd-{kind}", of_unknown_size(77, "?", 19, kind)
        yield f"dynamic-narrow-{kind}", of_unknown_size("?", "?", 8, kind)
        yield f"dynamic-single-{kind}", of_unknown_size(1, "?", 4096, kind)
    for kind in ("f16", "bf16"):
        yield f"heads-{kind}", gathered_heads(6, 128, 48, 80, kind)
        yield f"gradient-{kind}", weight_gradient(4, 30, 48, 96, 3, kind)
        yield f"gradient-odd-{kind}", weight_gradient(3, 13, 17, 23, 3, kind)
    yield "complex", complex_product(48, 80, 40)


PROGRAMS = {**dict(_small()), **dict(_large()), **OPERATIONS}

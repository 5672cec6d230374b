"""Prefill attention of a LLaMA-like model over a paged KV cache, with rotary embedding.

8 key/value heads each serve 4 query heads, and the sequence is kept as pages of 32 tokens. The
rotary embedding wants one flat sequence, so query and key are collapsed for it and expanded back
into pages for the attention. The causal mask is computed, not passed in.

The f16 program broadcasts that mask to every batch and head, as a plain export of scaled dot product
attention does. A compiler that fuses so big a mask into the attention without tiling it puts all of
it into shared memory. The f8 program rounds query, key and value to f8E4M3FNUZ and calls an attention
that takes one mask for all batches and heads. The mask makes the difference, not the type: see --mask.
"""

import argparse
from string import Template

BATCH, KV_HEADS, GROUP, PAGE, HEAD = 4, 8, 4, 32, 128

PAGED = {
    "query": f"{BATCH}x?x{PAGE}x{KV_HEADS}x{GROUP}x{HEAD}",
    "key": f"{BATCH}x?x{PAGE}x{KV_HEADS}x{HEAD}",
    "value": f"{BATCH}x?x{PAGE}x{KV_HEADS}x{HEAD}",
}
FLAT = {
    "query": f"{BATCH}x?x{KV_HEADS}x{GROUP}x{HEAD}",
    "key": f"{BATCH}x?x{KV_HEADS}x{HEAD}",
}
BY_HEAD = f"{BATCH}x{KV_HEADS}x{GROUP}x?x{PAGE}x{HEAD}"
# What a mask is indexed by, and its shape.
MASKS = {
    "per-head": (
        "b, h, g, s0, s1, t0, t1",
        f"{BATCH}x{KV_HEADS}x{GROUP}x?x{PAGE}x?x{PAGE}",
    ),
    "shared": ("s0, s1, t0, t1", f"?x{PAGE}x?x{PAGE}"),
}

PROGRAM = Template("""\
#grouped   = affine_map<(b, s0, s1, h, g, d) -> (b, s0, s1, h, g, d)>
#by_head   = affine_map<(b, s0, s1, h, g, d) -> (b, h, g, s0, s1, d)>
#mask      = affine_map<(${mask_dims}) -> (${mask_dims})>
#att_query = affine_map<(b, h, g, s0, s1, d, t0, t1, e) -> (b, h, g, s0, s1, d)>
#att_key   = affine_map<(b, h, g, s0, s1, d, t0, t1, e) -> (b, t0, t1, h, d)>
#att_value = affine_map<(b, h, g, s0, s1, d, t0, t1, e) -> (b, t0, t1, h, e)>
#att_scale = affine_map<(b, h, g, s0, s1, d, t0, t1, e) -> ()>
#att_mask  = affine_map<(b, h, g, s0, s1, d, t0, t1, e) -> (${mask_dims})>
#att_out   = affine_map<(b, h, g, s0, s1, d, t0, t1, e) -> (b, h, g, s0, s1, e)>

func.func @attention(%query: tensor<${query}xf16>, %key: tensor<${key}xf16>, %value: tensor<${value}xf16>,
                     %cos: tensor<?x${head}xf16>, %sin: tensor<?x${head}xf16>) -> tensor<${query}xf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %page = arith.constant ${page} : index
  %zero = arith.constant 0.0 : f16
  %minus_inf = arith.constant 0xFC00 : f16
  %scale = arith.constant 0.08838 : f16
  %pages = tensor.dim %query, %c1 : tensor<${query}xf16>
  %tokens = arith.muli %pages, %page : index
${rope}
  // Heads first, as the attention wants its query.
  %query_empty = tensor.empty(%pages) : tensor<${by_head}xf16>
  %query_by_head = linalg.generic {indexing_maps = [#grouped, #by_head],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel"]}
      ins(%query_rope : tensor<${query}xf16>) outs(%query_empty : tensor<${by_head}xf16>) {
  ^bb0(%x: f16, %unused: f16):
    linalg.yield %x : f16
  } -> tensor<${by_head}xf16>

  // Causal mask: token s may look at token t when s >= t.
  %mask_empty = tensor.empty(%pages, %pages) : tensor<${mask}xf16>
  %mask = linalg.generic {indexing_maps = [#mask], iterator_types = [${mask_iterators}]}
      outs(%mask_empty : tensor<${mask}xf16>) {
  ^bb0(%unused: f16):
${mask_indices}
    %s_page = arith.muli %s0, %page : index
    %s = arith.addi %s_page, %s1 : index
    %t_page = arith.muli %t0, %page : index
    %t = arith.addi %t_page, %t1 : index
    %seen = arith.cmpi sge, %s, %t : index
    %m = arith.select %seen, %zero, %minus_inf : f16
    linalg.yield %m : f16
  } -> tensor<${mask}xf16>
${rounding}
  // In the generic form, because the pretty one changed between releases.
  %out_empty = tensor.empty(%pages) : tensor<${by_head}xf16>
  %attended = "iree_linalg_ext.attention"(${operands}, %scale, %mask, %out_empty)
      <{indexing_maps = [#att_query, #att_key, #att_value, #att_scale, #att_mask, #att_out]}> ({
  ^bb0(%score: f32):
    "iree_linalg_ext.yield"(%score) : (f32) -> ()
  }) : (tensor<${by_head}x${dtype}>, tensor<${key}x${dtype}>, tensor<${value}x${dtype}>, f16,
        tensor<${mask}xf16>, tensor<${by_head}xf16>) -> tensor<${by_head}xf16>

  // Back to tokens first.
  %result_empty = tensor.empty(%pages) : tensor<${query}xf16>
  %result = linalg.generic {indexing_maps = [#by_head, #grouped],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel"]}
      ins(%attended : tensor<${by_head}xf16>) outs(%result_empty : tensor<${query}xf16>) {
  ^bb0(%x: f16, %unused: f16):
    linalg.yield %x : f16
  } -> tensor<${query}xf16>
  return %result : tensor<${query}xf16>
}
""")

ROPE = Template("""
  // Rotary embedding of the ${name}: x * cos + turned * sin, where turned swaps the two of a pair.
  %${name}_flat = tensor.collapse_shape %${name} ${groups} : tensor<${paged}xf16> into tensor<${flat}xf16>
  %${name}_rope_empty = tensor.empty(%tokens) : tensor<${flat}xf16>
  %${name}_rope_flat = linalg.generic {indexing_maps = [
      affine_map<(${dims}) -> (${dims})>, affine_map<(${dims}) -> (s, d)>, affine_map<(${dims}) -> (s, d)>,
      affine_map<(${dims}) -> (${dims})>], iterator_types = [${iterators}]}
      ins(%${name}_flat, %cos, %sin : tensor<${flat}xf16>, tensor<?x${head}xf16>, tensor<?x${head}xf16>)
      outs(%${name}_rope_empty : tensor<${flat}xf16>) {
  ^bb0(%x: f16, %cos_s: f16, %sin_s: f16, %unused: f16):
${indices}
    %odd = arith.remui %d, %c2 : index
    %is_even = arith.cmpi eq, %odd, %c0 : index
    %next = arith.addi %d, %c1 : index
    %previous = arith.subi %d, %c1 : index
    %partner = arith.select %is_even, %next, %previous : index
    %y = tensor.extract %${name}_flat[${outer}, %partner] : tensor<${flat}xf16>
    %minus_y = arith.negf %y : f16
    %turned = arith.select %is_even, %minus_y, %y : f16
    %xc = arith.mulf %x, %cos_s : f16
    %ys = arith.mulf %turned, %sin_s : f16
    %sum = arith.addf %xc, %ys : f16
    linalg.yield %sum : f16
  } -> tensor<${flat}xf16>
  %${name}_rope = tensor.expand_shape %${name}_rope_flat ${groups} output_shape ${shape}
      : tensor<${flat}xf16> into tensor<${paged}xf16>
""")

ROUND = Template("""
  %${rounded}_empty = tensor.empty(%pages) : tensor<${shape}xf8E4M3FNUZ>
  %${rounded} = linalg.generic {indexing_maps = [affine_map<(${dims}) -> (${dims})>, affine_map<(${dims}) -> (${dims})>],
      iterator_types = [${iterators}]}
      ins(%${name} : tensor<${shape}xf16>) outs(%${rounded}_empty : tensor<${shape}xf8E4M3FNUZ>) {
  ^bb0(%x: f16, %unused: f8E4M3FNUZ):
    %r = arith.truncf %x : f16 to f8E4M3FNUZ
    linalg.yield %r : f8E4M3FNUZ
  } -> tensor<${shape}xf8E4M3FNUZ>
""")


def parallel(rank):
    return ", ".join(['"parallel"'] * rank)


def indices(dims, wanted):
    """One linalg.index for each wanted dimension of a linalg.generic over dims."""
    return "\n".join(
        f"    %{dim} = linalg.index {dims.index(dim)} : index" for dim in wanted
    )


def rope(name, dims):
    """The rotary embedding of `name`, whose flat form has the dimensions `dims` (s: sequence, d: head)."""
    pages = (
        "[[0], [1, 2], " + ", ".join(f"[{i}]" for i in range(3, len(dims) + 1)) + "]"
    )
    return ROPE.substitute(
        name=name,
        paged=PAGED[name],
        flat=FLAT[name],
        head=HEAD,
        groups=pages,
        shape="[" + PAGED[name].replace("?", "%pages").replace("x", ", ") + "]",
        dims=", ".join(dims),
        iterators=parallel(len(dims)),
        indices=indices(dims, dims),
        outer=", ".join(f"%{dim}" for dim in dims[:-1]),
    )


def rounding(rounded, name, shape):
    rank = shape.count("x") + 1
    return ROUND.substitute(
        rounded=rounded,
        name=name,
        shape=shape,
        dims=", ".join(f"d{i}" for i in range(rank)),
        iterators=parallel(rank),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--dtype", choices=["f16", "f8"], default="f16", help="type the attention reads"
    )
    parser.add_argument(
        "--mask", choices=sorted(MASKS), help="default: shared for f8, per-head for f16"
    )
    args = parser.parse_args()
    mask_dims, mask = MASKS[
        args.mask or ("shared" if args.dtype == "f8" else "per-head")
    ]
    operands = {
        "query": ("query_by_head", BY_HEAD),
        "key": ("key_rope", PAGED["key"]),
        "value": ("value", PAGED["value"]),
    }
    names = {
        operand: f"{operand}_f8" if args.dtype == "f8" else name
        for operand, (name, _) in operands.items()
    }
    program = PROGRAM.substitute(
        **PAGED,
        by_head=BY_HEAD,
        head=HEAD,
        page=PAGE,
        dtype="f8E4M3FNUZ" if args.dtype == "f8" else "f16",
        rope=rope("query", ["b", "s", "h", "g", "d"])
        + rope("key", ["b", "s", "h", "d"]),
        mask=mask,
        mask_dims=mask_dims,
        mask_iterators=parallel(mask.count("x") + 1),
        mask_indices=indices(mask_dims.split(", "), ["s0", "s1", "t0", "t1"]),
        rounding="".join(rounding(f"{o}_f8", *of) for o, of in operands.items())
        if args.dtype == "f8"
        else "",
        operands=", ".join(
            f"%{names[operand]}" for operand in ("query", "key", "value")
        ),
    )
    print(program, end="")


if __name__ == "__main__":
    main()

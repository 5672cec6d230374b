"""Commands that refuse an option given twice where only one value counts: the first would be dropped in silence."""

from __future__ import annotations

import typer
from typer.core import TyperCommand, TyperOption


class Once(TyperCommand):
    """A command of triage. Lists such as `--flag` may be repeated, and switches do no harm twice."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Raises typer.BadParameter for a repeated option, with what else to do."""
        if not ctx.resilient_parsing:  # completion asks with half a command line
            _, _, given = self.make_parser(ctx).parse_args(list(args))
            for option in self.params:
                if not isinstance(option, TyperOption) or option.multiple or option.is_flag or option.count:
                    continue
                if given.count(option) > 1:
                    raise typer.BadParameter("given more than once, and only one value counts", ctx=ctx, param=option)
        return super().parse_args(ctx, args)

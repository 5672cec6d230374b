"""How the options of all commands are shown: panels by purpose, and plain names of values instead of types."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

_MANY = 8  # options of a command from which on panels help to find one
_PANELS = {
    "What": "--case --suite-config --find --match --metric --vary --model --backend --chip --kernel --input --all "
    "--interactive --run --phases --dispatch --top --bisect --reduce --investigate --bench --save --from-text --block --line",
    "Where to search": "--toolchain --baseline --good --bad --since --until --repo --project --every --build --share",
    "How sure": "--confidence --trust --fresh --threshold --time --budget --repeats --strict --try",
    "Output": "--out --format --github --allow-missing",
}
_OTHERS = "Advanced"
_PANEL_OF = {name: panel for panel, names in _PANELS.items() for name in names.split()}


def describe_parameters(command: Any) -> None:
    """Set how each parameter of a typer command is shown in its help."""
    options = [param for param in command.params if param.param_type_name == "option"]
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    for option in options:
        if getattr(option, "is_flag", False):
            option.metavar = ""
        elif option.metavar is None and not option.type_descriptor.is_choice:
            option.metavar = "N" if option.type_descriptor.is_ranged or option.bare_type() in ("int", "float") else "TEXT"
        if len(options) >= _MANY:
            option.rich_help_panel = _PANEL_OF.get(option.opts[0], _OTHERS)
    order = [*_PANELS, _OTHERS]
    options.sort(key=lambda option: order.index(option.rich_help_panel or _OTHERS))
    command.params[:] = [*arguments, *options]
    command.get_help_option = partial(_help_option, command.get_help_option)


def _help_option(make: Callable[[Any], Any], context: Any) -> Any:
    option = make(context)
    if option is not None:
        option.metavar = ""
    return option

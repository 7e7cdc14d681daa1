"""``evenli robustness``: does an answer survive another wording?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from evenli.cli import _shared as shared
from evenli.cli._shared import argument, option
from evenli.errors import InputError, MissingExtraError


def robustness(
    target: Annotated[
        str | None, argument("Run folder with wordings, or a model as 'audit' takes it; default: embedded.")
    ] = None,
    lang: shared.Lang = "en",
    data: Annotated[
        str | None,
        option("More wordings (.csv), templates of your own (.txt) or an official release.", metavar="FILE"),
    ] = None,
    full: Annotated[bool, option("Ask all wordings, not a sample of them.", "--full")] = False,
    axis: shared.Axis = "gender",
    labels: shared.Labels = None,
    out: Annotated[Path | None, option("Run folder; default: named by model, language, data.", "--out", "-o")] = None,
    device: shared.Device = None,
    online: shared.Online = False,
    prompts: shared.Prompts = 3,
    orders: shared.Orders = 3,
    concurrency: shared.Concurrency = 8,
    price: shared.Price = None,
    max_cost: shared.MaxCost = None,
    overwrite: Annotated[bool, option("Replace another run in the folder.", "--overwrite")] = False,
    charts: Annotated[bool, option("Also write the specification curve as wordings.svg and .png.", "--charts")] = False,
    as_json: shared.Json = False,
) -> None:
    """Ask a model in other words: does the answer survive?

    How far each number moves, in how many wordings its sign and its verdict hold, and which choice of words moves it.
    """
    from evenli._extras import check_extra
    from evenli.evaluate.audit import AuditSettings, default_folder
    from evenli.evaluate.robustness import is_run
    from evenli.evaluate.robustness import robustness as run
    from evenli.models import ModelOptions, Prompting
    from evenli.report.terminal import show_results
    from evenli.suites.base import Request
    from evenli.suites.robust.stability import PURPOSE

    if charts:
        check_extra("report", "the chart of the wordings")
    stored = is_run(target)
    if not stored:
        try:
            check_extra("wording", PURPOSE, "statsmodels")
        except MissingExtraError as error:
            shared.warn(f"{error}; everything else is computed without it")  # said before minutes of work, not after
    if stored and (full or data or out):
        raise InputError(f"{target} is a finished run; --full, --data and --out need a model")
    request = Request(lang, axis=axis, full=full)
    folder = out or default_folder(target, {"robust": data} if data else {}, request, ("robust",))
    folder = Path(str(target)) if stored else folder
    with shared.progress_bar(not as_json) as progress:
        asking = Prompting(prompts, orders, concurrency, price=shared.prices(price), max_cost=max_cost)
        options = ModelOptions(shared.split_names(labels), device, online=online, prompting=asking)
        settings = AuditSettings(
            axis, options=options, overwrite=overwrite, on_progress=progress, on_warning=shared.warn, full=full
        )
        result = run(target, lang, data, out=folder, settings=settings)
    written = ["predictions.parquet", "results.json", "run.json"]
    if charts:
        from evenli.report.wordings import write

        written += [file.name for file in write(result, folder)]
    if as_json:
        shared.print_json({"folder": str(folder), **result.to_dict()["robust"]})
    else:
        show_results(result, shared.console(), files=f"{folder}/ {', '.join(written)}", verbose=True)

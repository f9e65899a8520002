"""One HTML file that needs nothing else: no script, no font, no network."""

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources

from leap.retrainer.report import svg_charts as svg
from leap.retrainer.report.figures import Figure
from leap.retrainer.report.subject import Subject
from leap.retrainer.report.tables import Table, tables
from leap.retrainer.report.verdict import verdict
from leap.retrainer.savings.estimate import Saving


def page(subject: Subject, drawn: Sequence[Figure]) -> str:
    """The report as HTML text, with the figures that were drawn of the subject."""
    style = resources.files("leap.retrainer.report").joinpath("report.css").read_text(encoding="utf-8")
    made = list(tables(subject))
    contents = [("saving", "What routing has saved")] if subject.saving else []
    contents += [(f"figure-{number}", figure.title) for number, figure in enumerate(drawn)]
    contents += [(f"table-{number}", table.caption) for number, table in enumerate(made)]
    links = "".join(f'<li><a href="#{name}">{escape(title)}</a></li>' for name, title in contents)
    answers = "".join(f"<dt>{escape(asked)}</dt><dd>{escape(told)}</dd>" for asked, told in verdict(subject))
    paragraphs = "".join(f"<p>{escape(text)}</p>" for text in _summary(subject))
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>Leap: {escape(subject.title)}</title><link rel="icon" href="data:,"><style>{style}</style></head>\n'
        f'<body><a class="skip" href="#content">Skip the contents</a><main>\n<h1>{escape(subject.title)}</h1>\n'
        f'<dl class="verdict">{answers}</dl>\n{paragraphs}\n'
        f'<nav aria-label="Contents"><ul>{links}</ul></nav>\n<div id="content" tabindex="-1">\n'
        + _saving(subject.saving)
        + "\n".join(_figure(number, figure) for number, figure in enumerate(drawn))
        + "\n"
        + "\n".join(_table(number, table) for number, table in enumerate(made))
        + "\n</div></main></body>\n</html>\n"
    )


def _summary(subject: Subject) -> Iterable[str]:
    if subject.report:
        report = subject.report
        fate = "promoted" if report.promoted else "kept, not promoted"
        yield (
            f"Learned from {report.trained_on:,} attempts of {report.window_from} to {report.window_to} and judged on "
            f"{report.held_out:,} that it had not seen. {report.artifact} was {fate}: {report.reason}."
        )
        yield from (f"Doubt: {doubt}" for doubt in report.doubts)
    if subject.summary:
        side = subject.summary.sides[0]
        ran = "" if side.on_first is None else f"; {side.on_first}% of those ran on its first choice"
        yield (
            f"{side.submissions:,} submissions ranked again with {side.artifact} as serving would have run it, "
            f"{side.finished:,} of them finished and scored{ran}."
        )
        if side.doubt:
            yield f"{side.doubt}."
    yield (
        "w20, w10, w5: share of attempts whose predicted throughput is within 20, 10, 5% of the measured one. "
        "MdAPE: median of the relative error, in percent. Ratio: median of predicted over measured. In brackets: 95% "
        "intervals, in which attempts of one family count together."
    )


def _saving(saving: Saving | None) -> str:
    if saving is None:
        return ""
    assumptions = "".join(f"<li>{escape(text)}</li>" for text in saving.assumptions)
    return (
        '<section id="saving"><h2>What routing has saved</h2>'
        f"<p>{saving.attempts:,} routed attempts cost {saving.spent:,.0f} USD where {saving.without:,.0f} USD would "
        f"have been spent without routing: {saving.share:.1f}% less, with 95% confidence {saving.low:.1f} to "
        f"{saving.high:.1f}%. This is an estimate, under these assumptions:</p><ul>{assumptions}</ul></section>\n"
    )


def _figure(number: int, figure: Figure) -> str:
    name = f"figure-{number}"
    return (
        f'<figure id="{name}"><h2 id="{name}-title">{escape(figure.title)}</h2>'
        f"{svg.svg(figure.drawing, f'{name}-title')}<figcaption>{escape(figure.says)}</figcaption></figure>"
    )


def _table(number: int, table: Table) -> str:
    heads = "".join(f'<th scope="col"{_kind(head, table)}>{escape(head)}</th>' for head in table.heads)
    rows = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>' + "".join(map(_cell, row[1:])) + "</tr>" for row in table.rows
    )
    caption = escape(table.caption)
    return (
        f'<section id="table-{number}" class="scroll" tabindex="0" aria-label="{caption}"><table><caption>{caption}'
        f"</caption><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></section>"
    )


def _kind(head: str, table: Table) -> str:
    """Heads stand as their cells do."""
    column = table.heads.index(head)
    return ' class="text"' if any(_is_text(row[column]) for row in table.rows) else ""


def _is_text(cell: str) -> bool:
    return any(map(str.isalpha, cell))


def _cell(text: str) -> str:
    kind = ' class="text"' if _is_text(text) else ""
    return f"<td{kind}>{escape(text)}</td>"

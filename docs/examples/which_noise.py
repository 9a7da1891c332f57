"""The tables and the figure of docs/which-noise.md: python docs/examples/which_noise.py FOLDER."""

import json
import math
import sys
from pathlib import Path

from matplotlib import rc_context

import mechc
from mechc.report import plot

TARGETS = ((1.0, 1e-6), (0.1, 1e-9), (8.0, 1e-5))
COUNTS = (1, 30, 1000, 10_000)
ENTRANTS = (
    "gaussian", "laplace", "logistic", "huber", "hyperbolic_secant", "student_t", "gumbel",
    "gaussian_scale_mixture", "cauchy",
)  # fmt: skip
SHOWN = ("gaussian", "laplace", "logistic", "huber", "hyperbolic_secant", "student_t")


def measured(target, count):
    """One tournament, and the best exponent of Subbotin noise for the variance, as plain data."""
    found = mechc.tournament(target=target, count=count, mechanisms=ENTRANTS)
    best = mechc.optimise("subbotin", over={"beta": (1, 4)}, target=target, count=count,
                          tolerance=1e-3)  # fmt: skip
    rows = {e.name: dict(e.errors) for e in found if e.event is not None}
    noise = best.event.noise
    rows[f"subbotin, beta {best.values['beta']:.2f}"] = {
        "standard_deviation": noise.standard_deviation().value,
        "absolute_error": noise.absolute_error().value,
        "entropy": noise.entropy().value,
        "quantile_95": noise.error_quantile(0.95),
        "quantile_999": noise.error_quantile(0.999),
    }
    return {"target": target, "count": count, "rows": rows, "beta": best.values["beta"]}


def table(results, target):
    """Standard deviation / mean absolute error at each number of releases, as Markdown."""
    mine = [r for r in results if tuple(r["target"]) == tuple(target)]
    counts = " | ".join(f"{r['count']:,}" for r in mine)
    lines = [f"| noise | {counts} |"]
    lines.append("| --- |" + " ---: |" * len(mine))
    rows = {name: [r["rows"].get(name) for r in mine] for name in ENTRANTS}
    rows["best subbotin"] = [next(v for k, v in r["rows"].items() if "beta" in k) for r in mine]

    def shown(errors):
        pair = (errors or {}).get("standard_deviation"), (errors or {}).get("absolute_error")
        return " / ".join("-" if v is None or math.isinf(v) else f"{v:.4g}" for v in pair)

    for name, found in rows.items():
        lines.append(f"| {name.replace('_', ' ')} | {' | '.join(map(shown, found))} |")
    shapes = " | ".join(f"{r['beta']:.2f}" for r in mine)
    return "\n".join([*lines, f"| its exponent beta | {shapes} |"])


def figure(results, path):
    """Standard deviation over that of the Gaussian against the number of releases."""
    drawn, panels = plot.blank(10.0, 3.8, columns=len(TARGETS))
    for axes, target in zip(panels, TARGETS, strict=True):
        mine = [r for r in results if tuple(r["target"]) == tuple(target)]
        counts = [r["count"] for r in mine]
        base = [r["rows"]["gaussian"]["standard_deviation"] for r in mine]
        best = [min((v["standard_deviation"], k) for k, v in r["rows"].items() if "beta" in k)[0]
                for r in mine]  # fmt: skip
        curves = {
            name: [r["rows"][name]["standard_deviation"] for r in mine]
            for name in SHOWN
            if all(name in r["rows"] for r in mine)
        }
        for index, (name, values) in enumerate({**curves, "best subbotin": best}.items()):
            pairs = zip(values, base, strict=True)
            ratio = [v / b if math.isfinite(v) else math.nan for v, b in pairs]
            own = index == len(curves)
            axes.plot(counts, ratio, marker="o", markersize=3,
                      color="black" if own else plot.COLOURS[index % 6],
                      linestyle="-" if own else plot.DASHES[index % 6],
                      label=name.replace("_", " "))  # fmt: skip
        axes.set(xscale="log", xlabel="releases", ylim=(0.15, 1.5))
        axes.set_title(f"epsilon {target[0]:g}, delta {target[1]:g}", fontsize="medium")
    panels[0].set_ylabel("standard deviation / Gaussian's")
    handles, labels = panels[0].get_legend_handles_labels()
    where = "outside lower center"
    drawn.legend(handles, labels, loc=where, ncols=7, frameon=False, fontsize="small")
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "mechc"}):
        drawn.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    kept = folder / "which_noise.json"
    results = json.loads(kept.read_text("utf-8")) if kept.exists() else []
    for target in TARGETS:
        for count in COUNTS:
            if any(r["count"] == count and tuple(r["target"]) == target for r in results):
                continue
            results.append(measured(target, count))
            kept.write_text(json.dumps(results), encoding="utf-8")
            sys.stderr.write(f"{target} {count}\n")
    for target in TARGETS:
        sys.stdout.write(f"\n{target}\n\n{table(results, target)}\n")
    figure(results, folder / "which_noise.svg")

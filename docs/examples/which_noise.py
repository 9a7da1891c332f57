"""The tables and the figure of docs/which-noise.md: python docs/examples/which_noise.py FOLDER."""

import json
import math
import sys
from pathlib import Path

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


def table(result, most=8):
    """The best rows as a table of Markdown."""
    words = ("standard_deviation", "absolute_error", "quantile_95", "quantile_999")
    rows = sorted(result["rows"].items(), key=lambda row: row[1]["standard_deviation"])[:most]
    lines = ["| noise | std | mean abs | 95 % | 99.9 % |", "| --- | ---: | ---: | ---: | ---: |"]
    for name, errors in rows:
        lines.append(f"| {name} | {' | '.join(f'{errors[word]:.5g}' for word in words)} |")
    return "\n".join(lines)


def figure(results, path):
    """Standard deviation over that of the Gaussian against the number of releases."""
    drawn, panels = plot.blank(10.0, 3.6, columns=len(TARGETS))
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
            axes.plot(counts, ratio, marker="o", markersize=3, color=plot.COLOURS[index % 6],
                      linestyle=plot.DASHES[index % 6], label=name.replace("_", " "))  # fmt: skip
        axes.set(xscale="log", xlabel="releases", ylim=(0.4, 1.6))
        axes.set_title(f"epsilon {target[0]:g}, delta {target[1]:g}", fontsize="medium")
    panels[0].set_ylabel("standard deviation / Gaussian's")
    panels[-1].legend(frameon=False, fontsize="x-small", loc="upper left")
    plot.save(drawn, path)


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
    for result in results:
        sys.stdout.write(f"\n{result['target']}, {result['count']}\n\n{table(result)}\n")
    figure(results, folder / "which_noise.svg")
